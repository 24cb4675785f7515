//! Loading the driver so that cudarc finds it, and being sure that it does.
use super::find;
use crate::shared::{BUILD_ID, BuildIdFn, FailFn, ListFn, LiveFn, RegisterFn, ResetFn, SetFn, Sink};
use libloading::Library;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

/// The loaded stand-in driver. There is one per process, for the process's life.
pub struct Driver {
    pub(super) path: PathBuf,
    pub(super) symbols: Symbols,
    pub(super) exclusive: Mutex<()>,
}

/// The control symbols of the cdylib.
pub(super) struct Symbols {
    pub(super) reset: ResetFn,
    pub(super) set: SetFn,
    pub(super) fail: FailFn,
    pub(super) fired: ListFn,
    pub(super) counts: ListFn,
    pub(super) live: LiveFn,
    pub(super) faults: ListFn,
    pub(super) register_kernels: RegisterFn,
}

/// Why the stand-in driver was not loaded.
#[derive(Clone, Debug)]
pub enum LoadError {
    /// Only Linux's loader answers for a library by the name inside it.
    WrongSystem,
    /// No file of this build was found, and building one failed.
    NotFound {
        /// Where it was looked for.
        tried: Vec<PathBuf>,
        /// What cargo said.
        build: String,
    },
    /// The file is there and cannot be loaded.
    Broken(String),
    /// A real driver is in the process already: cudarc may be using it.
    RealDriverLoaded,
    /// Another library answers to the name that cudarc asks for.
    Shadowed,
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::WrongSystem => f.write_str("the stand-in driver can be loaded on Linux only"),
            Self::NotFound { tried, build } => {
                write!(
                    f,
                    "the stand-in driver's library is at none of {tried:?}, and building it failed: {build}"
                )
            }
            Self::Broken(why) => write!(f, "the stand-in driver cannot be loaded: {why}"),
            Self::RealDriverLoaded => f.write_str("a real CUDA driver is loaded in this process already"),
            Self::Shadowed => f.write_str("cudarc would load another library as libcuda.so"),
        }
    }
}

impl std::error::Error for LoadError {}

/// Loads the driver on the first call; later calls give the same one, or the same error.
///
/// Call it before anything calls cudarc: cudarc keeps the first library that it finds.
pub fn load() -> Result<&'static Driver, LoadError> {
    static DRIVER: OnceLock<Result<Driver, LoadError>> = OnceLock::new();
    DRIVER.get_or_init(load_once).as_ref().map_err(Clone::clone)
}

fn load_once() -> Result<Driver, LoadError> {
    if !cfg!(target_os = "linux") {
        return Err(LoadError::WrongSystem);
    }
    if loaded_already("libcuda.so.1") || loaded_already("libcuda.so") {
        return Err(LoadError::RealDriverLoaded);
    }
    let tried = find::candidates();
    let found = tried.iter().find(|path| is_of_this_build(path)).cloned();
    let path = match found {
        Some(path) => path,
        None => {
            let built = find::build().map_err(|build| LoadError::NotFound { tried: tried.clone(), build })?;
            if !is_of_this_build(&built) {
                let build = format!("{} comes from other sources than this test", built.display());
                return Err(LoadError::NotFound { tried, build });
            }
            built
        }
    };
    let broken = |error: libloading::Error| LoadError::Broken(error.to_string());
    // SAFETY: the library is this crate's own cdylib, whose initialisers do nothing.
    let library = unsafe { Library::new(&path) }.map_err(broken)?;
    let symbols = symbols(&library).map_err(broken)?;
    // It stays for the life of the process: cudarc keeps addresses of its functions.
    std::mem::forget(library);
    // The name that cudarc tries first must now mean this library.
    // SAFETY: loading a driver library has no effect but its initialisers'.
    let seen = unsafe { Library::new("libcuda.so") }.map_err(broken)?;
    if build_id(&seen).as_deref() != Some(BUILD_ID) {
        return Err(LoadError::Shadowed);
    }
    Ok(Driver { path, symbols, exclusive: Mutex::new(()) })
}

/// Whether a library of that name is in the process, without loading it.
#[cfg(target_os = "linux")]
fn loaded_already(name: &str) -> bool {
    use libloading::os::unix;
    const RTLD_NOLOAD: i32 = 4;
    // SAFETY: with this flag nothing is loaded, so no initialiser runs.
    unsafe { unix::Library::open(Some(name), unix::RTLD_LAZY | RTLD_NOLOAD) }.is_ok()
}

#[cfg(not(target_os = "linux"))]
fn loaded_already(_name: &str) -> bool {
    false
}

/// Whether the file is a stand-in driver of the sources that this code is from. One of others is unloaded
/// again.
fn is_of_this_build(path: &Path) -> bool {
    if !path.is_file() {
        return false;
    }
    // SAFETY: a file of this name beside the program is a cdylib of this crate; its initialisers do nothing.
    let library = unsafe { Library::new(path) };
    library.is_ok_and(|library| build_id(&library).as_deref() == Some(BUILD_ID))
}

fn build_id(library: &Library) -> Option<String> {
    // SAFETY: the symbol's type is the one that this crate exports it with; in no other library is there such
    // a name.
    let function = unsafe { library.get::<BuildIdFn>(b"stand_in_build_id") }.ok()?;
    // SAFETY: `collect` passes a sink and the context that it expects.
    let lines = collect(|context, sink| unsafe { function(context, sink) });
    lines.into_iter().next().map(|(text, _)| text)
}

fn symbols(library: &Library) -> Result<Symbols, libloading::Error> {
    // SAFETY: each symbol's type is the one that this crate exports it with; the build number has been
    // compared.
    unsafe {
        Ok(Symbols {
            reset: *library.get(b"stand_in_reset")?,
            set: *library.get(b"stand_in_set")?,
            fail: *library.get(b"stand_in_fail")?,
            fired: *library.get(b"stand_in_fired")?,
            counts: *library.get(b"stand_in_counts")?,
            live: *library.get(b"stand_in_live")?,
            faults: *library.get(b"stand_in_faults")?,
            register_kernels: *library.get(b"stand_in_register_kernels")?,
        })
    }
}

/// Gathers what a listing function tells its sink.
pub(super) fn collect(list: impl FnOnce(*mut c_void, Sink)) -> Vec<(String, u64)> {
    extern "C" fn sink(context: *mut c_void, text: *const u8, len: usize, number: u64) {
        // SAFETY: the driver passes on the context that `collect` gave, which points to this vector, and a
        // text that is valid for the length during the call.
        let (lines, text) =
            unsafe { (&mut *context.cast::<Vec<(String, u64)>>(), std::slice::from_raw_parts(text, len)) };
        lines.push((String::from_utf8_lossy(text).into_owned(), number));
    }
    let mut lines: Vec<(String, u64)> = Vec::new();
    list((&raw mut lines).cast(), sink);
    lines
}
