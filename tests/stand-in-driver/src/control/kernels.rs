//! Compiling kernels' own source for the host, and the image through which a module names the result.
use super::translate::{Translated, translate};
use crate::driver::IMAGE_HEADER;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The headers that stand in for CUDA's: path and text.
const HEADERS: &[(&str, &str)] = &[
    ("assert.h", include_str!("../../host/assert.h")),
    ("cuda_host.h", include_str!("../../host/cuda_host.h")),
    ("cuda_bf16.h", include_str!("../../host/cuda_bf16.h")),
    ("cuda_fp16.h", include_str!("../../host/cuda_fp16.h")),
    ("cuda_host/atomic.h", include_str!("../../host/cuda_host/atomic.h")),
    ("cuda_host/block.h", include_str!("../../host/cuda_host/block.h")),
    ("cuda_host/fibre.h", include_str!("../../host/cuda_host/fibre.h")),
    ("cuda_host/half_like.h", include_str!("../../host/cuda_host/half_like.h")),
    ("cuda_host/intrinsics.h", include_str!("../../host/cuda_host/intrinsics.h")),
    ("cuda_host/launch.h", include_str!("../../host/cuda_host/launch.h")),
    ("cuda_host/types.h", include_str!("../../host/cuda_host/types.h")),
    ("cuda_host/warp.h", include_str!("../../host/cuda_host/warp.h")),
];

/// `-ffp-contract=off`: what a kernel rounds twice is rounded twice. A GPU's compiler fuses unless it is told
/// not to.
const FLAGS: &[&str] = &[
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-fno-gnu-unique",
    "-ffp-contract=off",
    "-w",
];

/// A C++ compiler for kernels, with the folders and definitions that they need.
#[derive(Clone, Debug)]
pub struct Compiler {
    program: PathBuf,
    version: String,
    arguments: Vec<String>,
}

/// Kernels compiled for the host.
#[derive(Clone, Debug)]
pub struct KernelLibrary {
    path: PathBuf,
    kernels: Vec<String>,
}

/// Why kernels were not compiled.
#[derive(Debug)]
pub enum CompileError {
    /// The source file could not be read, or the result not written.
    File(PathBuf, std::io::Error),
    /// The source has no kernel that can be loaded, or one that cannot.
    Source(String),
    /// What the compiler said.
    Compiler(String),
}

impl std::fmt::Display for CompileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Source(why) => f.write_str(why),
            Self::Compiler(text) => write!(f, "the C++ compiler refused the kernels:\n{text}"),
        }
    }
}

impl std::error::Error for CompileError {}

impl Compiler {
    /// `$CXX`, `g++`, `c++` or `clang++`, the first that runs.
    pub fn find() -> Option<Self> {
        let named = std::env::var_os("CXX").map(PathBuf::from);
        let usual = ["g++", "c++", "clang++"].map(PathBuf::from);
        named.into_iter().chain(usual).find_map(|program| {
            let output = Command::new(&program).arg("--version").output().ok()?;
            let version = String::from_utf8_lossy(&output.stdout).into_owned();
            output.status.success().then(|| Self { program, version, arguments: Vec::new() })
        })
    }

    /// Adds an argument, such as `-DNAME=1` or `-Ifolder`.
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Compiles a `.cu` file. The result is kept, and found again while the source, what it includes, the
    /// compiler and its arguments are the same.
    pub fn compile(&self, source: &Path) -> Result<KernelLibrary, CompileError> {
        let text =
            std::fs::read_to_string(source).map_err(|error| CompileError::File(source.into(), error))?;
        let folder = source.parent().unwrap_or(Path::new("."));
        self.compile_text(&text, &source.to_string_lossy(), folder)
    }

    /// Compiles the text of a `.cu` file. `name` is for messages; `folder` is where its own headers are.
    pub fn compile_text(&self, text: &str, name: &str, folder: &Path) -> Result<KernelLibrary, CompileError> {
        let Translated { text, kernels } = translate(text, name).map_err(CompileError::Source)?;
        let cache = cache_folder();
        let headers = cache.join(format!("host-{}", crate::shared::BUILD_ID));
        for (path, text) in HEADERS {
            write_new(&headers.join(path), text.as_bytes())?;
        }
        let command = || {
            let mut command = Command::new(&self.program);
            command.args(FLAGS).args(&self.arguments).arg("-I").arg(&headers).arg("-I").arg(folder);
            command.args(["-x", "c++", "-"]);
            command
        };
        // The result depends on what the preprocessor makes of the text, and on the text's line numbers.
        let mut preprocess = command();
        preprocess.args(["-E", "-P"]);
        let expanded = run(preprocess, &text)?;
        let mut hash = DefaultHasher::new();
        (&text, &expanded, FLAGS, &self.arguments, &self.version).hash(&mut hash);
        let path = cache.join(format!("kernels-{:016x}.so", hash.finish()));
        if !path.is_file() {
            let partial = unique(&path);
            let mut compile = command();
            compile.arg("-o").arg(&partial);
            run(compile, &text)?;
            std::fs::rename(&partial, &path).map_err(|error| CompileError::File(path.clone(), error))?;
        }
        Ok(KernelLibrary { path, kernels })
    }
}

impl KernelLibrary {
    /// The compiled library.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kernels in it.
    pub fn kernels(&self) -> &[String] {
        &self.kernels
    }

    /// What to pass as a module's PTX (`Ptx::from_src`). A real driver refuses it: it is no PTX.
    pub fn image(&self) -> String {
        format!("{IMAGE_HEADER}\nlibrary {}\n", self.path.display())
    }
}

/// Says on the terminal that a test did not run for want of a compiler, past the test harness's capture.
pub fn not_run(test: &str) {
    let _ = writeln!(std::io::stderr(), "NOT RUN: {test}: no C++ compiler");
}

/// Compiles a source for a test, or says by name that the test did not run.
///
/// # Panics
///
/// If there is a compiler and it refuses the source.
pub fn compile_or_not_run(test: &str, source: &Path) -> Option<KernelLibrary> {
    let Some(compiler) = Compiler::find() else {
        not_run(test);
        return None;
    };
    Some(compiler.compile(source).unwrap_or_else(|error| panic!("{test}: {error}")))
}

/// Beside the build that this code is from, else among temporary files.
fn cache_folder() -> PathBuf {
    let profile = Path::new(env!("OUT_DIR")).ancestors().nth(3).filter(|profile| profile.is_dir());
    profile.map_or_else(std::env::temp_dir, Path::to_path_buf).join("stand-in-kernels")
}

/// A name beside `path` that no other thread or process uses.
fn unique(path: &Path) -> PathBuf {
    let thread = format!("{:?}", std::thread::current().id());
    let number: String = thread.chars().filter(char::is_ascii_digit).collect();
    path.with_extension(format!("{}-{number}.partial", std::process::id()))
}

/// Writes a file that others may be writing too, unless it is there.
fn write_new(path: &Path, bytes: &[u8]) -> Result<(), CompileError> {
    let write = || {
        if path.is_file() {
            return Ok(());
        }
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        let partial = unique(path);
        std::fs::write(&partial, bytes)?;
        std::fs::rename(&partial, path)
    };
    write().map_err(|error| CompileError::File(path.into(), error))
}

/// Runs a compiler with the source on its standard input.
fn run(mut command: Command, input: &str) -> Result<Vec<u8>, CompileError> {
    let failed = |error: std::io::Error| CompileError::Compiler(error.to_string());
    let pipe = std::process::Stdio::piped;
    let mut child = command.stdin(pipe()).stdout(pipe()).stderr(pipe()).spawn().map_err(failed)?;
    let mut stdin = child.stdin.take();
    let Output { status, stdout, stderr } = std::thread::scope(|scope| {
        // From a thread of its own: the compiler may fill its output before it has read everything.
        scope.spawn(move || stdin.as_mut().map(|stdin| stdin.write_all(input.as_bytes())));
        child.wait_with_output()
    })
    .map_err(failed)?;
    if status.success() {
        Ok(stdout)
    } else {
        Err(CompileError::Compiler(String::from_utf8_lossy(&stderr).into_owned()))
    }
}
