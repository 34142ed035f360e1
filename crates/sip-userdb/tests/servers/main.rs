//! Stores beside servers that are started here, and beside scripted ones that answer as none
//! should. One program, so that what they share is built once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod http;
mod ldap;
mod mariadb;
mod postgresql;
mod radius;
mod redis;
mod scripted;
#[path = "../stores/mod.rs"]
mod stores;
#[path = "../support/mod.rs"]
mod support;
