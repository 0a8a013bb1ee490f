//! What the macro does with types: it refuses those that no message can hold, and moves others out of the impl block.

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{
    Error, GenericArgument, GenericParam, Generics, PathArguments, PathSegment, Result, ReturnType,
    Type, WherePredicate,
};

/// Refuses borrowed and opaque types: a message, or a reply, is a value that goes to another thread.
///
/// # Errors
/// The first reference that is not `'static`, or the first `impl Trait`; `what` is the value's role.
pub(crate) fn check_owned(ty: &Type, what: &str) -> Result<()> {
    match ty {
        Type::Reference(it) => {
            let is_static = it.lifetime.as_ref().is_some_and(|it| it.ident == "static");
            if is_static && it.mutability.is_none() {
                return check_owned(&it.elem, what);
            }
            let advice = "use an owned type, such as `String` for `&str`, or an `Arc`";
            let text =
                format!("{what} cannot be borrowed, because it goes to another thread: {advice}");
            Err(Error::new_spanned(it, text))
        }
        Type::ImplTrait(it) => {
            let text = format!(
                "{what} needs a type with a name: box it, or use a type parameter of the block"
            );
            Err(Error::new_spanned(it, text))
        }
        Type::Array(it) => check_owned(&it.elem, what),
        Type::Slice(it) => check_owned(&it.elem, what),
        Type::Paren(it) => check_owned(&it.elem, what),
        Type::Group(it) => check_owned(&it.elem, what),
        Type::Tuple(it) => it.elems.iter().try_for_each(|it| check_owned(it, what)),
        Type::Path(it) => it
            .path
            .segments
            .iter()
            .try_for_each(|it| check_arguments(it, what)),
        // Within function types references are no borrows.
        _ => Ok(()),
    }
}

fn check_arguments(segment: &PathSegment, what: &str) -> Result<()> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return Ok(());
    };
    arguments.args.iter().try_for_each(|it| match it {
        GenericArgument::Type(ty) => check_owned(ty, what),
        GenericArgument::AssocType(it) => check_owned(&it.ty, what),
        _ => Ok(()),
    })
}

/// The type behind `->`.
pub(crate) fn returned(output: &ReturnType) -> Type {
    match output {
        ReturnType::Default => syn::parse_quote!(()),
        ReturnType::Type(_, ty) => Type::clone(ty),
    }
}

/// Whether the type is `Context<Self>` behind a reference.
pub(crate) fn is_context(ty: &Type, self_ty: &Type) -> bool {
    let Type::Reference(reference) = ty else {
        return false;
    };
    let argument = argument_of(&reference.elem, "Context");
    let text = |ty: &dyn ToTokens| ty.to_token_stream().to_string();
    argument.is_some_and(|it| text(it) == "Self" || text(it) == text(self_ty))
}

/// `T` of a type `Name<T>`.
pub(crate) fn argument_of<'t>(ty: &'t Type, name: &str) -> Option<&'t Type> {
    let Type::Path(path) = ty else { return None };
    let segment = path.path.segments.last().filter(|it| it.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return None;
    };
    match arguments.args.first() {
        Some(GenericArgument::Type(ty)) if arguments.args.len() == 1 => Some(ty),
        _ => None,
    }
}

/// The name of the actor's type, for the names of what is made.
///
/// # Errors
/// A type that is no path, such as a tuple.
pub(crate) fn name_of(self_ty: &Type) -> Result<&PathSegment> {
    let path = match self_ty {
        Type::Path(it) if it.qself.is_none() => it.path.segments.last(),
        _ => None,
    };
    path.ok_or_else(|| Error::new_spanned(self_ty, "an actor is a struct or an enum with a name"))
}

/// Writes out `Self`, which has another meaning, or none, outside of the block.
pub(crate) fn without_self(tokens: TokenStream, self_ty: &Type) -> TokenStream {
    let mut written = TokenStream::new();
    let mut rest = tokens.into_iter().peekable();
    while let Some(token) = rest.next() {
        match token {
            TokenTree::Ident(it) if it == "Self" => {
                let is_prefix =
                    matches!(rest.peek(), Some(TokenTree::Punct(it)) if it.as_char() == ':');
                written.extend(if is_prefix {
                    quote!(<#self_ty>)
                } else {
                    quote!(#self_ty)
                });
            }
            TokenTree::Group(it) => {
                let mut group = Group::new(it.delimiter(), without_self(it.stream(), self_ty));
                group.set_span(it.span());
                written.extend([TokenTree::Group(group)]);
            }
            other => written.extend([other]),
        }
    }
    written
}

/// The parameters that occur in `tokens`, with those of their bounds that name no other parameter.
pub(crate) fn used_generics(generics: &Generics, tokens: &TokenStream) -> Generics {
    let is_used = |it: &GenericParam| mentions(tokens, &param_name(it));
    let (used, unused): (Vec<_>, Vec<_>) = generics.params.iter().cloned().partition(is_used);
    let is_free = |bound: &dyn ToTokens| {
        let bound = bound.to_token_stream();
        !unused.iter().any(|it| mentions(&bound, &param_name(it)))
    };
    let mut kept = Generics::default();
    for mut param in used {
        if let GenericParam::Type(it) = &mut param {
            it.bounds = std::mem::take(&mut it.bounds)
                .into_iter()
                .filter(|it| is_free(it))
                .collect();
        }
        kept.params.push(param);
    }
    for predicate in generics.where_clause.iter().flat_map(|it| &it.predicates) {
        let is_about_used = match predicate {
            WherePredicate::Type(it) => {
                let bounded = it.bounded_ty.to_token_stream();
                kept.params
                    .iter()
                    .any(|it| mentions(&bounded, &param_name(it)))
            }
            _ => false,
        };
        if is_about_used && is_free(predicate) {
            kept.make_where_clause().predicates.push(predicate.clone());
        }
    }
    kept
}

fn param_name(param: &GenericParam) -> String {
    match param {
        GenericParam::Type(it) => it.ident.to_string(),
        GenericParam::Const(it) => it.ident.to_string(),
        GenericParam::Lifetime(it) => it.lifetime.ident.to_string(),
    }
}

fn mentions(tokens: &TokenStream, name: &str) -> bool {
    tokens.clone().into_iter().any(|it| match it {
        TokenTree::Ident(it) => it == name,
        TokenTree::Group(it) => mentions(&it.stream(), name),
        _ => false,
    })
}
