"""From a raw server entry and the values of its inputs to the plan one start is made of."""
