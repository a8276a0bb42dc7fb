"""The assignors of tasks."""
