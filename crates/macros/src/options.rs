//! The options of `#[handlers(..)]` and of `#[handler(..)]`.

use proc_macro2::TokenStream;
use syn::{Attribute, Expr, Ident, Meta, Path, Result, meta::ParseNestedMeta};

/// `#[handlers(prefix = .., crate = ..)]`.
pub(crate) struct BlockOptions {
    pub(crate) prefix: Option<Ident>,
    pub(crate) krate: Path,
}

impl Default for BlockOptions {
    fn default() -> Self {
        Self {
            prefix: None,
            krate: syn::parse_quote!(::freeboard),
        }
    }
}

impl BlockOptions {
    /// # Errors
    /// An unknown option, or a value of the wrong kind.
    pub(crate) fn read(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.path.is_ident("prefix") {
            self.prefix = Some(meta.value()?.parse()?);
        } else if meta.path.is_ident("crate") {
            self.krate = meta.value()?.call(Path::parse_mod_style)?;
        } else {
            return Err(meta.error("unknown option: `prefix` and `crate` are known"));
        }
        Ok(())
    }
}

/// `#[handler(..)]` of a method.
#[derive(Default)]
pub(crate) struct MethodOptions {
    pub(crate) is_skipped: bool,
    pub(crate) call: Option<Ident>,
    pub(crate) lane: Option<Expr>,
    pub(crate) coalesce: Option<Expr>,
    /// An error fails the actor.
    pub(crate) fails_on_err: bool,
    /// What the message type derives.
    pub(crate) derives: Vec<TokenStream>,
}

impl MethodOptions {
    /// Takes the attributes `handler` out of a method's.
    ///
    /// # Errors
    /// An unknown option, or a value of the wrong kind.
    pub(crate) fn take(attributes: &mut Vec<Attribute>) -> Result<Self> {
        let mut options = Self::default();
        let is_ours = |it: &mut Attribute| it.path().is_ident("handler");
        let taken: Vec<_> = attributes.extract_if(.., is_ours).collect();
        for attribute in taken {
            if !matches!(attribute.meta, Meta::Path(_)) {
                attribute.parse_nested_meta(|meta| options.read(&meta))?;
            }
        }
        Ok(options)
    }

    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.path.is_ident("skip") {
            self.is_skipped = true;
        } else if meta.path.is_ident("call") {
            self.call = Some(meta.value()?.parse()?);
        } else if meta.path.is_ident("lane") {
            self.lane = Some(meta.value()?.parse()?);
        } else if meta.path.is_ident("coalesce") {
            self.coalesce = Some(meta.value()?.parse()?);
        } else if meta.path.is_ident("fail_on_err") {
            self.fails_on_err = true;
        } else if meta.path.is_ident("derive") {
            let content;
            syn::parenthesized!(content in meta.input);
            self.derives.push(content.parse()?);
        } else {
            let known = "`skip`, `call`, `lane`, `coalesce`, `fail_on_err` and `derive` are known";
            return Err(meta.error(format!("unknown option: {known}")));
        }
        Ok(())
    }
}
