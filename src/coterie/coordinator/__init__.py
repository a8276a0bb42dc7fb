"""Ring 2, THE CORE: consumer groups as a pure function of (state, command, time). See ARCHITECTURE.md."""
