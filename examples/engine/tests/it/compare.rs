//! The comparison at the end of a run without a command.

use graph_host::Host;

// A replay that computes something else is found.
#[test]
fn a_corrupted_operation_fails_the_comparison() {
    let host = Host::new();
    host.corrupt_operation("rms_norm", 1);
    let error = engine::run(["engine"], &host, "host", &mut std::io::sink()).unwrap_err().to_string();
    assert!(error.contains("different") || error.contains("differ"), "{error}");
}
