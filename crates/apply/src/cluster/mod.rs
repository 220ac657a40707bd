//! Doing what a plan says: the only place that writes managed objects.
