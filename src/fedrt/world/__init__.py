"""What happens: channels, bandwidths and links as the controller sees them, round by round."""
