//! The program under test: one binary, one story per test. Servers are real and private, on free ports, in temporary
//! directories.

#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

mod accounts;
mod bad_input;
mod command_line;
mod connections;
mod crash;
mod deliveries;
mod draw_faults;
mod draws;
mod expiry;
mod faults;
mod idempotency;
mod lifecycle;
mod limits;
mod live;
mod office;
mod operators;
mod orders;
mod pages;
mod passes;
mod payments;
mod readme;
mod receiver;
mod short_way;
mod stream;
mod support;
mod system;
mod waiting_room;
mod webhooks;
