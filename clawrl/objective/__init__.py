"""The mathematics in pure torch: rewards, advantages, losses."""
