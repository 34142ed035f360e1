//! Sockets and TLS, with other software at the other end. One program, so that what they share is
//! built once; what depends on the second TLS engine has programs of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod alias;
mod backlog;
mod beside;
mod common;
mod dns;
mod evicted;
mod lanes;
mod limits;
mod tcp;
mod tls;
mod tls_aborted;
mod tls_algorithms;
mod tls_certificates;
mod tls_client;
mod tls_close;
mod tls_matrix;
mod tls_mutual;
mod tls_places;
mod tls_resumption;
mod tls_storm;
mod tls_turns;
mod tls_verified;
mod tls_waiting;
mod udp;
mod workers;
mod ws;
