"""Libraries as contenders: what they are as installed, beside what they can do on this processor."""
