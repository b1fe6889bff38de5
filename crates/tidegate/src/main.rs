//! The `tidegate` program; everything is in the library beside it.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    tidegate::cli::main()
}
