//! The engine binary: it links plugins, lists what they registered, captures every bucket, and serves.

// The plugins. Linking one is all it takes: its regions and nodes register themselves.
use digits_plugin as _;
use llama_plugin as _;

fn main() -> std::process::ExitCode {
    engine::main()
}
