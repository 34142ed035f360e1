use super as _;
