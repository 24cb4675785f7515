//! Numbers and names of CUDA's errors, in one table.

use std::fmt::Display;

use graph_core::{Error, ErrorKind};

macro_rules! codes {
    ($($(#[$doc:meta])* $constant:ident = $number:literal, $name:literal;)*) => {
        $($(#[$doc])* pub const $constant: u32 = $number;)*

        const TABLE: &[(u32, &str)] = &[$(($number, $name)),*];
    };
}

codes! {
    /// An argument that no call accepts, such as ranges that overlap.
    INVALID_VALUE = 1, "CUDA_ERROR_INVALID_VALUE";
    /// The host has no memory left.
    OUT_OF_MEMORY = 2, "CUDA_ERROR_OUT_OF_MEMORY";
    /// A stream, buffer, event or graph of another device.
    INVALID_HANDLE = 400, "CUDA_ERROR_INVALID_HANDLE";
    /// An access outside memory; only injected here, since every range is checked before it is used.
    ILLEGAL_ADDRESS = 700, "CUDA_ERROR_ILLEGAL_ADDRESS";
    /// A view whose first byte is not aligned to its element.
    MISALIGNED_ADDRESS = 716, "CUDA_ERROR_MISALIGNED_ADDRESS";
    /// A kernel failed; only injected here, since a panic is reported as one.
    LAUNCH_FAILED = 719, "CUDA_ERROR_LAUNCH_FAILED";
    /// A call from inside a kernel body or a host callback.
    NOT_PERMITTED = 800, "CUDA_ERROR_NOT_PERMITTED";
    /// A call that waits, allocates, or touches pageable memory while its stream or its thread captures.
    STREAM_CAPTURE_UNSUPPORTED = 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
    /// The capture was broken by an earlier error; `end_capture` makes the streams usable again.
    STREAM_CAPTURE_INVALIDATED = 901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
    /// A wait that would join two captures.
    STREAM_CAPTURE_MERGE = 902, "CUDA_ERROR_STREAM_CAPTURE_MERGE";
    /// An end without a begin on that stream, or a second begin.
    STREAM_CAPTURE_UNMATCHED = 903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED";
    /// Work of a forked stream that the capturing stream never waited for.
    STREAM_CAPTURE_UNJOINED = 904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED";
    /// A wait inside a capture for an event recorded outside it.
    STREAM_CAPTURE_ISOLATION = 905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION";
    /// An implicit dependency on the legacy stream. This backend has no legacy stream: only injected.
    STREAM_CAPTURE_IMPLICIT = 906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT";
    /// The host asks about, or an uncaptured stream waits for, an event that a capture recorded.
    CAPTURED_EVENT = 907, "CUDA_ERROR_CAPTURED_EVENT";
    /// The end of a capture on another thread than its begin.
    STREAM_CAPTURE_WRONG_THREAD = 908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD";
}

/// The driver's name of a code.
///
/// ```
/// assert_eq!(graph_host::codes::name(904), "CUDA_ERROR_STREAM_CAPTURE_UNJOINED");
/// ```
pub fn name(code: u32) -> &'static str {
    TABLE.iter().find(|(number, _)| *number == code).map_or("CUDA_ERROR_UNKNOWN", |(_, name)| name)
}

/// The error of a call; `detail` is a clause without its leading colon.
#[cold]
pub(crate) fn error(call: &str, code: u32, detail: impl Display) -> Error {
    let detail = format!(": {detail}");
    ErrorKind::Driver { backend: "host", call: call.into(), code, name: name(code), detail }.into()
}
