//! Answers every vector, here or in the folder that `CONFORMANCE_DIR` names.

use std::{env, io, path::Path, process::ExitCode};

use conformance::{Table, run};

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--list") {
        println!("vectors: test");
        return ExitCode::SUCCESS;
    }
    // A name that is asked for and is not this test's.
    if args.iter().any(|arg| !arg.starts_with('-') && !"vectors".contains(arg.as_str())) {
        return ExitCode::SUCCESS;
    }
    match all() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn all() -> Result<bool, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.join("../..");
    let out = &mut io::stdout().lock();
    let report = match env::var_os("CONFORMANCE_DIR") {
        // Tests run in their package; whoever names a folder is more likely at the root of the workspace.
        Some(folder) if root.join(&folder).exists() => run(&root.join(folder), None, out),
        Some(folder) => run(Path::new(&folder), None, out),
        None => {
            let table = Table::read(&root.join("docs/differences.md"))?;
            run(&here.join("vectors"), Some(&table), out)
        }
    };
    Ok(report.map_err(|e| e.to_string())?.is_good())
}
