"""Durable files: whoever reads sees old or new content, whoever writes never undoes what another one wrote."""
