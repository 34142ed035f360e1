//! The few statistics that the search and the comparison need.
