//! The tests of this package build what the README shows.
