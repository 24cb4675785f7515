//! NVRTC, opened from a folder.

use std::{
    error::Error,
    ffi::{CStr, CString, c_char, c_int, c_void},
    path::{Path, PathBuf},
    ptr::{null, null_mut},
};

use graph_cuda::KernelSource;
use libloading::{Library, Symbol};

type Program = *mut c_void;
type Done<T> = Result<T, Box<dyn Error>>;

/// The library.
pub(crate) struct Nvrtc(Library);

/// A file in a folder or its folders, by the beginning of its name.
pub(crate) fn find(folder: &Path, beginning: &str) -> Option<PathBuf> {
    let mut entries: Vec<_> = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    let named = |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(beginning));
    let found = entries.iter().find(|path| path.is_file() && named(path)).cloned();
    found.or_else(|| entries.iter().filter(|path| path.is_dir()).find_map(|path| find(path, beginning)))
}

impl Nvrtc {
    pub(crate) fn open(compilers: &Path) -> Done<Self> {
        let path = find(compilers, "libnvrtc.so").ok_or("no NVRTC in the folder of the compilers")?;
        // SAFETY: NVIDIA's library, installed by its package; loading it runs nothing but its initialisers.
        Ok(Nvrtc(unsafe { Library::new(std::path::absolute(path)?) }?))
    }

    fn get<T>(&self, name: &str) -> Done<Symbol<'_, T>> {
        // SAFETY: every caller names a function of NVRTC's manual with the type that it has there.
        Ok(unsafe { self.0.get(name.as_bytes()) }?)
    }

    /// Such as `13.5`.
    pub(crate) fn version(&self) -> Done<String> {
        let version = self.get::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>("nvrtcVersion")?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the pointers are valid for the writes.
        checked("nvrtcVersion", unsafe { version(&raw mut major, &raw mut minor) })?;
        Ok(format!("{major}.{minor}"))
    }

    /// Those that it compiles for.
    pub(crate) fn architectures(&self) -> Done<Vec<i32>> {
        type Ask = unsafe extern "C" fn(*mut c_int) -> c_int;
        let mut count = 0;
        // SAFETY: the pointer is valid for the write.
        checked("nvrtcGetNumSupportedArchs", unsafe {
            self.get::<Ask>("nvrtcGetNumSupportedArchs")?(&raw mut count)
        })?;
        let mut known = vec![0; usize::try_from(count)?];
        // SAFETY: there is room for as many as it has said.
        checked("nvrtcGetSupportedArchs", unsafe {
            self.get::<Ask>("nvrtcGetSupportedArchs")?(known.as_mut_ptr())
        })?;
        Ok(known)
    }

    /// The PTX of a source, compiled as the backend does.
    pub(crate) fn compile(&self, source: &KernelSource, architecture: i32) -> Done<Vec<u8>> {
        type Create = unsafe extern "C" fn(
            *mut Program,
            *const c_char,
            *const c_char,
            c_int,
            *const *const c_char,
            *const *const c_char,
        ) -> c_int;
        let (text, name) = (CString::new(source.expanded())?, CString::new(source.name)?);
        let mut program = null_mut();
        // SAFETY: the texts end with a zero and live until the program is destroyed; there are no headers.
        checked("nvrtcCreateProgram", unsafe {
            let create = self.get::<Create>("nvrtcCreateProgram")?;
            create(&raw mut program, text.as_ptr(), name.as_ptr(), 0, null(), null())
        })?;
        let mut options = vec![format!("--gpu-architecture=compute_{architecture}"), "--std=c++17".into()];
        options.extend(source.options.iter().map(|option| (*option).to_owned()));
        let compiled = self.compile_program(program, &options);
        let log = self.text(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog");
        let ptx = compiled.and_then(|()| self.text(program, "nvrtcGetPTXSize", "nvrtcGetPTX"));
        let destroy = self.get::<unsafe extern "C" fn(*mut Program) -> c_int>("nvrtcDestroyProgram")?;
        // SAFETY: the program is alive, and not used any more.
        unsafe { destroy(&raw mut program) };
        ptx.map_err(|error| {
            let log = log.map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default();
            format!("{} for compute_{architecture}: {error}\n{log}", source.name).into()
        })
    }

    fn compile_program(&self, program: Program, options: &[String]) -> Done<()> {
        type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
        let options: Vec<CString> =
            options.iter().map(|o| CString::new(o.as_str())).collect::<Result<_, _>>()?;
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let compile = self.get::<Compile>("nvrtcCompileProgram")?;
        // SAFETY: the program is alive, and the options are as many as said.
        let code = unsafe { compile(program, c_int::try_from(pointers.len())?, pointers.as_ptr()) };
        checked("nvrtcCompileProgram", code)
    }

    /// What a pair of functions gives: a size, then so many bytes, the last of which is a zero.
    fn text(&self, program: Program, size: &str, get: &str) -> Done<Vec<u8>> {
        let mut bytes = 0;
        // SAFETY: the program is alive, and the pointer is valid for the write.
        checked(size, unsafe {
            self.get::<unsafe extern "C" fn(Program, *mut usize) -> c_int>(size)?(program, &raw mut bytes)
        })?;
        let mut text = vec![0_u8; bytes.max(1)];
        // SAFETY: there is room for as many bytes as it has said.
        checked(get, unsafe {
            let get = self.get::<unsafe extern "C" fn(Program, *mut c_char) -> c_int>(get)?;
            get(program, text.as_mut_ptr().cast())
        })?;
        Ok(CStr::from_bytes_until_nul(&text)?.to_bytes().to_vec())
    }
}

fn checked(call: &str, code: c_int) -> Done<()> {
    match code {
        0 => Ok(()),
        code => Err(format!("{call}: error {code}").into()),
    }
}
