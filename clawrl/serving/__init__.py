"""What is served now and what is admitted to it: shared by the gateway and the publisher."""
