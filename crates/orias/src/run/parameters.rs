//! What a kernel wants to be given.

use super::Code;
use orias_cubin::Cubin;

/// The kernels of a module, by name: type and bytes of each parameter.
pub type Parameters = Vec<(String, Vec<(String, u64)>)>;

/// The parameters of every kernel. PTX says the type of each (`u32`, `f32`; arrays as `b8`), a cubin only its size, which is told as `b32`.
///
/// # Errors
/// A cubin cannot be read.
pub fn parameters(code: Code<'_>) -> Result<Parameters, String> {
    match code {
        Code::Ptx(source) => Ok(of_ptx(source)),
        Code::Cubin(image) => {
            let cubin = Cubin::read(image).map_err(|error| error.to_string())?;
            let kernels = cubin.functions();
            let kernels = kernels.iter().filter(|view| view.is_entry).map(|view| {
                let sizes = view.params.iter().map(|it| u64::from(it.size));
                let sizes = sizes.map(|bytes| (format!("b{}", bytes * 8), bytes));
                (view.name.to_owned(), sizes.collect())
            });
            Ok(kernels.collect())
        }
    }
}

fn of_ptx(source: &[u8]) -> Parameters {
    let (module, _) = orias_ptx::parse(source);
    let entries = module.functions.iter().filter(|it| it.entry);
    let entries = entries.map(|function| {
        let parameters = function.parameters.iter().map(|&id| {
            let variable = module.variable(id);
            let name = variable.ty.to_string();
            (name.trim_start_matches('.').to_owned(), variable.bytes())
        });
        (module.name(function.name).to_owned(), parameters.collect())
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_names_types_and_a_cubin_sizes() {
        let ptx = b".version 8.0\n.target sm_90a\n.address_size 64\n\
            .visible .entry k(.param .u64 p, .param .f32 x, .param .align 8 .b8 s[24]) { ret; }\n";
        let of = |types: [&str; 3]| {
            let sizes = types.into_iter().zip([8, 4, 24]);
            let sizes = sizes.map(|(name, bytes)| (name.to_owned(), bytes));
            vec![("k".to_owned(), sizes.collect::<Vec<_>>())]
        };
        assert_eq!(parameters(Code::Ptx(ptx)), Ok(of(["u64", "f32", "b8"])));
        let options = crate::Options {
            target: crate::Target::parse("sm_90a").expect("a target"),
            ..crate::Options::default()
        };
        let source = crate::Source {
            name: "k.ptx",
            text: ptx,
        };
        let compiled = crate::compile(&source, &options).expect("compiled");
        let cubin = compiled.cubin.expect("a cubin");
        assert_eq!(
            parameters(Code::Cubin(&cubin)),
            Ok(of(["b64", "b32", "b192"]))
        );
        assert!(parameters(Code::Cubin(b"\x7fELF")).is_err());
    }
}
