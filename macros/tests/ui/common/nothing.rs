//! A backend that does nothing: enough to compile, register and size regions.

use std::ptr::NonNull;

use graph_core::{Backend, PadRows, Result};

/// Has no memory and runs nothing.
#[derive(Clone, Debug)]
pub struct Nothing;

macro_rules! nothing {
    ($($(#[$a:meta])* fn $name:ident($($arg:ident: $ty:ty),*) $(-> $out:ty)?;)*) => {
        $(fn $name($($arg: $ty),*) $(-> $out)? { $(let _ = $arg;)* unimplemented!("no device") })*
    };
}

// SAFETY: there is no pinned memory: every call that would give any panics.
unsafe impl Backend for Nothing {
    const NAME: &'static str = "nothing";
    type Buffer = ();
    type Pinned = ();
    type Stream = ();
    type Event = ();
    type Captured = ();
    type Graph = ();
    fn alloc(&self, _: usize) -> Result<()> {
        unimplemented!("no device")
    }
    fn alloc_pinned(&self, _: usize) -> Result<()> {
        unimplemented!("no device")
    }
    fn stream(&self) -> Result<()> {
        unimplemented!("no device")
    }
    fn issued(&self) -> u64 {
        0
    }
    fn instantiate(&self, _: ()) -> Result<()> {
        unimplemented!("no device")
    }
    nothing! {
        fn buffer_bytes(b: &()) -> usize;
        fn pinned_bytes(p: &()) -> NonNull<[u8]>;
        fn synchronize(s: &()) -> Result<()>;
        fn record_event(s: &()) -> Result<()>;
        fn wait_event(s: &(), e: &()) -> Result<()>;
        fn upload(s: &(), src: &[u8], dst: &(), at: usize) -> Result<()>;
        fn download(s: &(), src: &(), at: usize, dst: &mut [u8]) -> Result<()>;
        fn copy(s: &(), src: (&(), usize), dst: (&(), usize), bytes: usize) -> Result<()>;
        fn zero(s: &(), dst: &(), at: usize, bytes: usize) -> Result<()>;
        fn upload_block(s: &(), src: &(), dst: &(), bytes: usize) -> Result<()>;
        fn pad_rows(s: &(), p: PadRows<'_, Self>) -> Result<()>;
        fn signal(s: &(), src: (&(), usize), dst: (&(), usize)) -> Result<()>;
        fn begin_capture(s: &()) -> Result<()>;
        fn end_capture(s: &()) -> Result<()>;
        fn is_capturing(s: &()) -> bool;
        fn operations(c: &()) -> Vec<String>;
        fn upload_graph(g: &(), s: &()) -> Result<()>;
        fn launch(g: &(), s: &()) -> Result<()>;
    }
}
