//! CUresult values that the stand-in returns, and the name and text of each.
use std::ffi::{CStr, c_int};

/// A CUresult other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) c_int);

pub(crate) type Result<T = ()> = std::result::Result<T, Code>;

impl Code {
    pub(crate) const INVALID_VALUE: Self = Self(1);
    pub(crate) const OUT_OF_MEMORY: Self = Self(2);
    pub(crate) const NOT_INITIALIZED: Self = Self(3);
    pub(crate) const INVALID_DEVICE: Self = Self(101);
    pub(crate) const INVALID_IMAGE: Self = Self(200);
    pub(crate) const INVALID_CONTEXT: Self = Self(201);
    pub(crate) const FILE_NOT_FOUND: Self = Self(301);
    pub(crate) const INVALID_HANDLE: Self = Self(400);
    pub(crate) const ILLEGAL_STATE: Self = Self(401);
    pub(crate) const NOT_FOUND: Self = Self(500);
    pub(crate) const NOT_READY: Self = Self(600);
    pub(crate) const ILLEGAL_ADDRESS: Self = Self(700);
    pub(crate) const CONTEXT_IS_DESTROYED: Self = Self(709);
    pub(crate) const NOT_PERMITTED: Self = Self(800);
    pub(crate) const NOT_SUPPORTED: Self = Self(801);
    pub(crate) const CAPTURE_UNSUPPORTED: Self = Self(900);
    pub(crate) const CAPTURE_INVALIDATED: Self = Self(901);
    pub(crate) const CAPTURE_MERGE: Self = Self(902);
    pub(crate) const CAPTURE_UNMATCHED: Self = Self(903);
    pub(crate) const CAPTURE_UNJOINED: Self = Self(904);
    pub(crate) const CAPTURE_ISOLATION: Self = Self(905);
    pub(crate) const CAPTURE_IMPLICIT: Self = Self(906);
    pub(crate) const CAPTURED_EVENT: Self = Self(907);
    pub(crate) const CAPTURE_WRONG_THREAD: Self = Self(908);
    pub(crate) const GRAPH_UPDATE_FAILURE: Self = Self(910);

    /// Errors after which a context returns nothing but the same error.
    pub(crate) fn poisons(self) -> bool {
        matches!(self.0, 700 | 710 | 719)
    }
}

/// Number, name and text of every result that the stand-in knows.
const TABLE: &[(c_int, &CStr, &CStr)] = &[
    (0, c"CUDA_SUCCESS", c"no error"),
    (1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
    (4, c"CUDA_ERROR_DEINITIALIZED", c"driver shutting down"),
    (35, c"CUDA_ERROR_INSUFFICIENT_DRIVER", c"driver version is insufficient"),
    (36, c"CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER", c"call requires a newer driver"),
    (100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
    (101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
    (200, c"CUDA_ERROR_INVALID_IMAGE", c"device kernel image is invalid"),
    (201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
    (209, c"CUDA_ERROR_NO_BINARY_FOR_GPU", c"no kernel image is available for the device"),
    (218, c"CUDA_ERROR_INVALID_PTX", c"a PTX compilation failed"),
    (222, c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", c"the PTX has an unsupported version"),
    (301, c"CUDA_ERROR_FILE_NOT_FOUND", c"file not found"),
    (400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
    (401, c"CUDA_ERROR_ILLEGAL_STATE", c"the operation cannot be performed in the present state"),
    (500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
    (600, c"CUDA_ERROR_NOT_READY", c"device not ready"),
    (700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered"),
    (701, c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", c"too many resources requested for launch"),
    (702, c"CUDA_ERROR_LAUNCH_TIMEOUT", c"the launch timed out and was terminated"),
    (709, c"CUDA_ERROR_CONTEXT_IS_DESTROYED", c"context is destroyed"),
    (710, c"CUDA_ERROR_ASSERT", c"device-side assert triggered"),
    (719, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
    (800, c"CUDA_ERROR_NOT_PERMITTED", c"operation not permitted"),
    (801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
    (900, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", c"operation not permitted when stream is capturing"),
    (
        901,
        c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        c"operation failed due to a previous error during capture",
    ),
    (902, c"CUDA_ERROR_STREAM_CAPTURE_MERGE", c"operation would merge two independent captures"),
    (903, c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", c"capture was not initiated in this stream"),
    (904, c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", c"the capture has a fork that was not joined"),
    (905, c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", c"dependency on work outside the capture"),
    (906, c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", c"implicit dependency on the legacy stream"),
    (907, c"CUDA_ERROR_CAPTURED_EVENT", c"event was last recorded in a capturing stream"),
    (908, c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", c"capture was ended by another thread"),
    (909, c"CUDA_ERROR_TIMEOUT", c"wait operation timed out"),
    (910, c"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", c"the graph update was not performed"),
    (999, c"CUDA_ERROR_UNKNOWN", c"unknown error"),
];

/// The name and the text of a result, if there is such a result.
pub(crate) fn describe(code: c_int) -> Option<(&'static CStr, &'static CStr)> {
    TABLE.iter().find(|row| row.0 == code).map(|row| (row.1, row.2))
}
