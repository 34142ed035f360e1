//! SIPp scenarios with sockets.
#![forbid(unsafe_code)]
