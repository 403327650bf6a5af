"""The dispatcher: buffers by class, one job in the engine at a time, sprints, and a journal."""
