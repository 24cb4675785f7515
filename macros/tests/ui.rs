//! What compiles, and what is said about what does not. The messages are pinned, those in `compiler` as Rust 1.95 words
//! them; `TRYBUILD=overwrite` writes them anew.

#[test]
fn ui() {
    {
        let cases = trybuild::TestCases::new();
        cases.compile_fail("tests/ui/mistakes/*.rs");
        cases.compile_fail("tests/ui/compiler/*.rs");
    }
    // Apart from the others, which are only checked: these are built and run.
    trybuild::TestCases::new().pass("tests/ui/pass/*.rs");
}
