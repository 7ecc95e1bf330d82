"""The HTTP door: the scheduling service, and all of the queue, for programs and pages."""
