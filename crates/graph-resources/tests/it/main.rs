//! Resources through the engine, on the host backend.

mod allocations;
mod errors;
mod failures;
mod probe;
mod roles;
mod sampling;
mod schedules;
mod slots;
mod toy;
mod walks;
