//! PTX in, cubin out.

use crate::check::check;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::options::Options;
use crate::target::TargetKind;

/// A PTX module and the name that messages call it by.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// A path, or whatever the user knows the module by.
    pub name: &'a str,
    /// The PTX.
    pub text: &'a [u8],
}

/// What a compilation made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// The cubin; nothing when the target is virtual and the input was only checked.
    pub cubin: Option<Vec<u8>>,
    /// Warnings and remarks.
    pub diagnostics: Diagnostics,
}

/// Compiles one module.
///
/// Nothing is printed and nothing is shared between calls, so any number of threads may compile at once. An error holds
/// everything there is to say, warnings included.
///
/// ```
/// use orias::{Kind, Options, Source, Target, compile};
///
/// let options = Options {
///     target: Target::parse("sm_90a").unwrap(),
///     ..Options::default()
/// };
/// let source = Source {
///     name: "empty.ptx",
///     text: b".version 8.0\n.target sm_90a\n.address_size 64\n",
/// };
/// match compile(&source, &options) {
///     Ok(compiled) => assert!(compiled.cubin.is_some()),
///     Err(diagnostics) => {
///         assert!(matches!(diagnostics.0[0].kind, Kind::Unsupported { .. }));
///     }
/// }
/// ```
pub fn compile(source: &Source<'_>, options: &Options) -> Result<Compiled, Diagnostics> {
    compile_all(std::slice::from_ref(source), options)
}

/// Compiles several modules into one cubin.
pub fn compile_all(sources: &[Source<'_>], options: &Options) -> Result<Compiled, Diagnostics> {
    let mut diagnostics = Diagnostics::default();
    for source in sources {
        diagnostics.0.extend(check(source, options).0);
    }
    let mut diagnostics = options.treat_warnings(diagnostics);
    if diagnostics.has_errors() {
        return Err(diagnostics);
    }
    if options.target.kind == TargetKind::Virtual {
        return Ok(Compiled {
            cubin: None,
            diagnostics,
        });
    }
    diagnostics.0.push(Diagnostic::unsupported(
        "code generation (lowering from PTX to Ori)",
    ));
    Err(diagnostics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_can_be_called_from_many_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Options>();
        shared::<Compiled>();
        shared::<Diagnostics>();
        shared::<Source<'_>>();
    }
}
