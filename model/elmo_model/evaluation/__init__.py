"""What a network's vectors are worth: probes on frozen layers."""
