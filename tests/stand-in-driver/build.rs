//! Gives the cdylib the name that cudarc asks for first, and both halves of the crate a common build number.
use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=host");
    println!("cargo:rerun-if-changed=build.rs");
    // A dlopen of this name finds a library that is loaded already under it (see the crate's manual,
    // "Loading"). The file itself is never called that, so no search path can turn it up by accident.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so");
    }
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    for folder in ["src", "host"] {
        hash.folder(Path::new(folder));
    }
    println!("cargo:rustc-env=STAND_IN_BUILD_ID={:016x}", hash.0);
}

/// FNV-1a, enough to tell one state of the sources from another.
struct Fnv(u64);

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn folder(&mut self, path: &Path) {
        let mut entries: Vec<_> = std::fs::read_dir(path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
            .map(|entry| entry.expect("a readable folder entry").path())
            .collect();
        entries.sort();
        for entry in entries {
            self.bytes(entry.to_string_lossy().as_bytes());
            if entry.is_dir() {
                self.folder(&entry);
            } else {
                self.bytes(
                    &std::fs::read(&entry).unwrap_or_else(|error| panic!("{}: {error}", entry.display())),
                );
            }
        }
    }
}
