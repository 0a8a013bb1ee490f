//! A method of the block, read as a handler: its message's fields, its reply, its options.

use syn::{
    Attribute, Error, FnArg, Ident, ImplItemFn, Meta, Pat, PatType, ReceiverKind, Result,
    ReturnType, Safety, Signature, Type, Visibility, ext::IdentExt,
};

use crate::{
    options::MethodOptions,
    types::{argument_of, check_owned, is_context, returned},
};

/// Methods of `ActorRef`, which would hide a call of the same name.
const METHODS_OF_REFERENCES: &[&str] = &[
    "any",
    "ask",
    "clone",
    "depth",
    "downgrade",
    "id",
    "is_alive",
    "join",
    "name",
    "producer",
    "recipient",
    "send",
    "send_lane",
    "service",
    "sink",
    "snapshot",
    "stop",
    "stop_gracefully",
    "tell",
    "tell_blocking",
    "tell_blocking_lane",
    "tell_credited",
    "tell_lane",
    "tell_or_log",
    "try_tell",
    "try_tell_lane",
    "wait_ended_until",
    "wait_started",
];

/// A handler.
pub(crate) struct Method {
    pub(crate) vis: Visibility,
    pub(crate) name: Ident,
    /// The name of the reference's method.
    pub(crate) call: Ident,
    /// Documentation, conditions, deprecation and allowed lints.
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) kind: Kind,
    /// In the order of the parameters.
    pub(crate) arguments: Vec<Argument>,
    /// The fields of the message.
    pub(crate) fields: Vec<Field>,
    pub(crate) reply: Type,
    pub(crate) options: MethodOptions,
}

/// Which of the traits the handler implements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Async,
    Deferred,
}

/// What a parameter receives.
pub(crate) enum Argument {
    Context,
    /// The port of the reply.
    Deferred,
    /// The field of this index.
    Field(usize),
}

/// An argument that the message carries.
pub(crate) struct Field {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) name: Ident,
    pub(crate) ty: Type,
}

impl Method {
    /// Reads a method, and takes from it what only the macro understands. `None` if it is no handler: a function
    /// without `self`, or one that is skipped.
    ///
    /// # Errors
    /// Everything that a handler cannot be or have.
    pub(crate) fn read(method: &mut ImplItemFn, self_ty: &Type) -> Result<Option<Self>> {
        let options = MethodOptions::take(&mut method.attrs)?;
        if options.is_skipped || method.sig.receiver().is_none() {
            return Ok(None);
        }
        check_signature(&method.sig)?;
        let mut arguments = Vec::new();
        let mut fields = Vec::new();
        let mut reply = None;
        for input in &mut method.sig.inputs {
            let FnArg::Typed(parameter) = input else {
                continue;
            };
            let is_field = take_attribute(&mut parameter.attrs, "field");
            let value = argument_of(&parameter.ty, "Deferred").filter(|_| !is_field);
            arguments.push(if is_context(&parameter.ty, self_ty) {
                Argument::Context
            } else if let Some(value) = value {
                if reply.replace(value.clone()).is_some() {
                    let text = "a handler has one reply: mark a `Deferred` that the message carries with `#[field]`";
                    return Err(Error::new_spanned(parameter, text));
                }
                Argument::Deferred
            } else {
                fields.push(Field::read(parameter)?);
                Argument::Field(fields.len() - 1)
            });
        }
        let contexts = arguments
            .iter()
            .filter(|it| matches!(it, Argument::Context));
        if contexts.count() > 1 {
            return Err(Error::new_spanned(
                &method.sig.inputs,
                "a handler has one context",
            ));
        }
        let kind = match (&reply, method.sig.asyncness) {
            (None, None) => Kind::Plain,
            (None, Some(_)) => Kind::Async,
            (Some(_), None) => Kind::Deferred,
            (Some(_), Some(token)) => {
                let text = "a handler with a `Deferred` is no `async fn`: move the `Deferred` into a future, by `cx.pipe`";
                return Err(Error::new_spanned(token, text));
            }
        };
        let output = &method.sig.output;
        if kind == Kind::Deferred && !matches!(output, ReturnType::Default) {
            let text = "a handler with a `Deferred` returns nothing: its reply goes through the `Deferred`";
            return Err(Error::new_spanned(output, text));
        }
        if kind == Kind::Deferred && options.fails_on_err {
            let text =
                "`fail_on_err` is about a result that the method returns: call `cx.fail` instead";
            return Err(Error::new_spanned(&method.sig.ident, text));
        }
        if options.fails_on_err && matches!(output, ReturnType::Default) {
            let text = "`fail_on_err` needs a method that returns a `Result`";
            return Err(Error::new_spanned(&method.sig.ident, text));
        }
        let reply = reply.unwrap_or_else(|| returned(output));
        check_owned(&reply, "a reply")?;
        let name = method.sig.ident.clone();
        let call = options.call.clone().unwrap_or_else(|| name.clone());
        if METHODS_OF_REFERENCES.contains(&&*call.unraw().to_string()) {
            let text = format!(
                "`ActorRef` has a method `{call}`, which would hide the call of this handler: choose another name, or \
                 name the call with `#[handler(call = ..)]`"
            );
            return Err(Error::new(call.span(), text));
        }
        let attributes = carried_over(&method.attrs);
        // The signature is that of a message, whatever the body needs.
        method.attrs.push(syn::parse_quote! {
            #[allow(clippy::needless_pass_by_value, clippy::unused_async, clippy::unused_self)]
        });
        Ok(Some(Self {
            vis: method.vis.clone(),
            name,
            call,
            attributes,
            kind,
            arguments,
            fields,
            reply,
            options,
        }))
    }

    /// The attributes `#[cfg(..)]`.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &Attribute> {
        self.attributes
            .iter()
            .filter(|it| it.path().is_ident("cfg"))
    }

    /// The name in `CamelCase`.
    pub(crate) fn camel_case(&self) -> String {
        let name = self.name.unraw().to_string();
        name.split('_').map(capitalized).collect()
    }
}

impl Field {
    fn read(parameter: &mut PatType) -> Result<Self> {
        // The compiler refuses documentation of a parameter; here it documents the field.
        let is_documentation = |it: &mut Attribute| it.path().is_ident("doc");
        let attributes = parameter.attrs.extract_if(.., is_documentation).collect();
        let Pat::Ident(pattern) = &*parameter.pat else {
            let text = "a parameter needs a name, because it becomes a field of the message";
            return Err(Error::new_spanned(&parameter.pat, text));
        };
        check_owned(&parameter.ty, "an argument of a message")?;
        Ok(Self {
            attributes,
            name: pattern.ident.clone(),
            ty: Type::clone(&parameter.ty),
        })
    }
}

/// Whether there was an attribute of this name.
fn take_attribute(attributes: &mut Vec<Attribute>, name: &str) -> bool {
    let count = attributes.len();
    attributes.retain(|it| !it.path().is_ident(name));
    attributes.len() < count
}

fn check_signature(signature: &Signature) -> Result<()> {
    let is_borrowed = signature.receiver().is_some_and(|it| match &it.kind {
        ReceiverKind::Reference(..) => true,
        ReceiverKind::Typed(_, ty) => matches!(**ty, Type::Reference(_)),
        _ => false,
    });
    if !is_borrowed {
        let text =
            "a handler takes `&mut self` or `&self`: the actor handles further messages afterwards";
        return Err(Error::new_spanned(signature.receiver(), text));
    }
    if !signature.generics.params.is_empty() {
        let text = "a handler cannot be generic, because each message type has one handler: use a type parameter of \
                    the block, or implement `Handler` for a generic message";
        return Err(Error::new_spanned(&signature.generics, text));
    }
    if let Safety::Unsafe(token) = &signature.safety {
        let text = "a handler cannot be unsafe: the sender of a message cannot promise anything";
        return Err(Error::new_spanned(token, text));
    }
    Ok(())
}

/// The attributes that what is made from a method shares with it. All others stay with the method alone.
fn carried_over(attributes: &[Attribute]) -> Vec<Attribute> {
    let mut carried = Vec::new();
    for attribute in attributes {
        let path = attribute.path();
        if ["doc", "cfg", "deprecated", "allow"]
            .iter()
            .any(|it| path.is_ident(it))
        {
            carried.push(attribute.clone());
        } else if path.is_ident("expect")
            && let Meta::List(list) = &attribute.meta
        {
            // The lint may be silent there.
            let lints = &list.tokens;
            carried.push(syn::parse_quote!(#[allow(#lints)]));
        }
    }
    carried
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use quote::ToTokens;
    use syn::{File, ImplItem, Item, Visibility};

    use super::METHODS_OF_REFERENCES;

    /// Those of references to any actor.
    #[test]
    fn the_list_has_every_method_of_references() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../actor/src");
        let mut methods = BTreeSet::from(["clone".to_owned()]);
        let mut paths = vec![sources];
        while let Some(path) = paths.pop() {
            if path.is_dir() {
                let entries = fs::read_dir(path).expect("the crate of actors");
                paths.extend(entries.map(|it| it.expect("an entry").path()));
                continue;
            }
            let text = fs::read_to_string(&path).expect("text");
            let file: File = syn::parse_str(&text).expect("Rust");
            for item in file.items {
                let Item::Impl(block) = item else { continue };
                let name = block.self_ty.to_token_stream().to_string();
                if block.trait_.is_none() && name == "ActorRef < A >" {
                    methods.extend(block.items.iter().filter_map(|item| match item {
                        ImplItem::Fn(it) if matches!(it.vis, Visibility::Public(_)) => {
                            Some(it.sig.ident.to_string())
                        }
                        _ => None,
                    }));
                }
            }
        }
        let listed: BTreeSet<_> = METHODS_OF_REFERENCES
            .iter()
            .map(|it| (*it).to_owned())
            .collect();
        assert_eq!(listed, methods, "METHODS_OF_REFERENCES is not complete");
    }
}
