//! `#[derive(RemoteMessage)]`: name, version and reply of a message between processes.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Error, LitInt, LitStr, Path, Type, parse_quote, parse2};

pub(crate) fn expand(item: TokenStream) -> Result<TokenStream, Error> {
    let item: DeriveInput = parse2(item)?;
    if !item.generics.params.is_empty() {
        let text = "a message between processes has one name, so it cannot be generic";
        return Err(Error::new_spanned(&item.generics, text));
    }
    let mut name: Option<LitStr> = None;
    let mut version: LitInt = parse_quote!(1);
    let mut reply: Type = parse_quote!(());
    let mut key: Option<Path> = None;
    let mut remote: Path = parse_quote!(::freeboard::remote);
    for attribute in item.attrs.iter().filter(|it| it.path().is_ident("remote")) {
        attribute.parse_nested_meta(|option| {
            let value = option.value()?;
            if option.path.is_ident("name") {
                name = Some(value.parse()?);
            } else if option.path.is_ident("version") {
                version = value.parse()?;
                version.base10_parse::<u32>()?;
            } else if option.path.is_ident("reply") {
                reply = value.parse()?;
            } else if option.path.is_ident("key") {
                key = Some(value.parse()?);
            } else if option.path.is_ident("path") {
                remote = value.parse()?;
            } else {
                return Err(
                    option.error("the options are `name`, `version`, `reply`, `key` and `path`")
                );
            }
            Ok(())
        })?;
    }
    let Some(name) = name else {
        let text = "a message between processes needs a name: `#[remote(name = \"bank.deposit\")]`";
        return Err(Error::new_spanned(&item.ident, text));
    };
    if name.value().is_empty() {
        return Err(Error::new_spanned(name, "the name is empty"));
    }
    let ident = &item.ident;
    let key = key.map(|key| {
        quote! {
            fn coalesce_key(&self) -> ::core::option::Option<u64> {
                #key(self)
            }
        }
    });
    Ok(quote! {
        impl #remote::RemoteMessage for #ident {
            const NAME: &'static str = #name;
            const VERSION: u32 = #version;
            type Reply = #reply;
            #key
        }
    })
}
