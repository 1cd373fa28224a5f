"""The SkillActor: registry, staging, sandbox and watcher of skills."""
