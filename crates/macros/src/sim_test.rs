//! `#[sim_test(seeds = 200)]`: a test that runs with many seeds.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, ItemFn, LitInt, parse::Parser, parse2};

/// Seeds if none are given.
const SEEDS: u64 = 100;

pub(crate) fn expand(options: TokenStream, item: TokenStream) -> Result<TokenStream, Error> {
    let mut seeds = SEEDS;
    let read = syn::meta::parser(|option| {
        if !option.path.is_ident("seeds") {
            return Err(option.error("the only option is `seeds = NUMBER`"));
        }
        let number = option.value()?.parse::<LitInt>()?;
        seeds = number.base10_parse()?;
        if seeds == 0 {
            let text = "a test without seeds would test nothing";
            return Err(Error::new_spanned(number, text));
        }
        Ok(())
    });
    read.parse2(options)?;
    let function: ItemFn = parse2(item)?;
    let signature = &function.sig;
    if signature.inputs.len() != 1 || signature.asyncness.is_some() {
        let text = "a simulated test is a function with one parameter, `world: &mut World`";
        return Err(Error::new_spanned(signature, text));
    }
    let (attributes, name) = (&function.attrs, &signature.ident);
    let inner = ItemFn {
        attrs: Vec::new(),
        vis: syn::Visibility::Inherited,
        ..function.clone()
    };
    Ok(quote! {
        #(#attributes)*
        #[test]
        fn #name() {
            #inner
            ::freeboard::sim::each_seed(0..#seeds, |world| #name(world));
        }
    })
}
