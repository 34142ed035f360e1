//! Placeholder of the skeleton.
fn main() {}
