//! What the macro writes: the block without its own attributes, and for each handler a message type, a handler trait's
//! implementation, and a method of the reference.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{
    Error, Generics, Ident, ImplItem, ItemImpl, Path, Result, Type, Visibility, ext::IdentExt,
    spanned::Spanned,
};

use crate::{
    method::{Argument, Kind, Method},
    options::BlockOptions,
    types::{name_of, used_generics, without_self},
};

/// The block and what follows from it. Beside an error, everything that is right is written all the same, so that the
/// compiler reports no other errors.
pub(crate) fn expand(options: BlockOptions, mut block: ItemImpl) -> TokenStream {
    let name = match name_of_actor(&block) {
        Ok(name) => name,
        Err(error) => {
            let error = error.to_compile_error();
            return quote!(#block #error);
        }
    };
    let mut errors = Vec::new();
    let mut methods = Vec::new();
    for item in &mut block.items {
        if let ImplItem::Fn(method) = item {
            match Method::read(method, &block.self_ty) {
                Ok(method) => methods.extend(method),
                Err(error) => errors.push(error.to_compile_error()),
            }
        }
    }
    let maker = Maker {
        krate: options.krate,
        prefix: options.prefix.unwrap_or(name),
        self_ty: &block.self_ty,
        generics: &block.generics,
    };
    let made = maker.make(&methods);
    quote!(#block #made #(#errors)*)
}

fn name_of_actor(block: &ItemImpl) -> Result<Ident> {
    if let Some((path, _)) = &block.trait_ {
        let text = "`#[handlers]` is for a block `impl Type { .. }`, without a trait";
        return Err(Error::new_spanned(path, text));
    }
    Ok(name_of(&block.self_ty)?.ident.clone())
}

/// The parts of the block that everything needs.
struct Maker<'b> {
    krate: Path,
    prefix: Ident,
    self_ty: &'b Type,
    generics: &'b Generics,
}

impl Maker<'_> {
    fn make(&self, methods: &[Method]) -> TokenStream {
        let messages = methods.iter().map(|it| self.message_type(it));
        let handlers = methods.iter().map(|it| self.handler(it));
        let mut by_visibility: Vec<(&Visibility, Vec<&Method>)> = Vec::new();
        for method in methods {
            match by_visibility
                .iter_mut()
                .find(|(vis, _)| text(vis) == text(&method.vis))
            {
                Some((_, group)) => group.push(method),
                None => by_visibility.push((&method.vis, vec![method])),
            }
        }
        by_visibility.sort_by_key(|(vis, _)| reach(vis));
        let calls = by_visibility
            .iter()
            .enumerate()
            .map(|(index, (vis, group))| {
                let restriction = if index == 0 { "" } else { restriction(vis) };
                self.calls(
                    vis,
                    &format_ident!("{}{restriction}Calls", self.prefix),
                    group,
                )
            });
        quote!(#(#messages)* #(#handlers)* #(#calls)*)
    }

    fn message_name(&self, method: &Method) -> Ident {
        let name = format!("{}{}", self.prefix.unraw(), method.camel_case());
        Ident::new(&name, at(method.name.span()))
    }

    /// The message's type, and those parameters of the block that its fields need.
    fn message(&self, method: &Method) -> (TokenStream, Generics) {
        let types: TokenStream = method
            .fields
            .iter()
            .map(|it| self.outside(&it.ty))
            .collect();
        let generics = used_generics(self.generics, &types);
        let name = self.message_name(method);
        let (_, parameters, _) = generics.split_for_impl();
        (quote!(#name #parameters), generics)
    }

    fn outside(&self, tokens: &impl ToTokens) -> TokenStream {
        without_self(tokens.to_token_stream(), self.self_ty)
    }

    /// The path of the facade: errors about what it leads to point to `at`.
    fn krate(&self, at: Span) -> TokenStream {
        let tokens = self.krate.to_token_stream().into_iter();
        tokens
            .map(|mut it| {
                it.set_span(at);
                it
            })
            .collect()
    }

    fn message_type(&self, method: &Method) -> TokenStream {
        let (vis, attributes) = (&method.vis, &method.attributes);
        let attributes = attributes
            .iter()
            .filter(|it| !it.path().is_ident("deprecated"));
        let name = self.message_name(method);
        let (_, generics) = self.message(method);
        let bounds = &generics.where_clause;
        let fields = method.fields.iter().map(|field| {
            let (name, ty) = (&field.name, self.outside(&field.ty));
            let attributes = &field.attributes;
            let fallback = format!("The argument `{}`.", name.unraw());
            let documentation = attributes.is_empty().then(|| quote!(#[doc = #fallback]));
            quote!(#documentation #(#attributes)* #vis #name: #ty)
        });
        let body = if !method.fields.is_empty() {
            quote!(#bounds { #(#fields),* })
        } else {
            quote!(;)
        };
        let derives = &method.options.derives;
        let title = format!("The message of `{}::{}`.", text(self.self_ty), method.name);
        quote! {
            #[doc = #title]
            #[doc = ""]
            #(#attributes)*
            #(#[derive(#derives)])*
            #[allow(dead_code, unreachable_pub)]
            #vis struct #name #generics #body
        }
    }

    fn handler(&self, method: &Method) -> TokenStream {
        let at = at(method.name.span());
        let (krate, self_ty, name) = (self.krate(at), self.self_ty, &method.name);
        let (message, _) = self.message(method);
        let (generics, _, bounds) = self.generics.split_for_impl();
        let conditions = method.conditions();
        let reply = self.outside(&method.reply);
        // Names that no argument has.
        let [msg, reply_name, cx] =
            ["msg", "reply", "cx"].map(|it| Ident::new(it, Span::mixed_site().located_at(at)));
        let arguments = method.arguments.iter().map(|it| match it {
            Argument::Context => quote!(#cx),
            Argument::Deferred => quote!(#reply_name),
            Argument::Field(index) => {
                let name = &method.fields[*index].name;
                quote!(#msg.#name)
            }
        });
        let call = quote_spanned!(at=> Self::#name(self, #(#arguments),*));
        let fails = method.options.fails_on_err;
        let checked = |result| quote_spanned!(at=> <#reply as #krate::HandlerResult>::fail_on_err(#result, #cx));
        let (handler, port, returned, body) = match method.kind {
            Kind::Plain if fails => ("Handler", None, reply.clone(), checked(call)),
            Kind::Plain => ("Handler", None, reply.clone(), call),
            Kind::Deferred => ("DeferredHandler", Some(&reply_name), quote!(()), call),
            Kind::Async => {
                // Not an `async fn`, which would put the method's future into another one.
                let future = quote_spanned!(at=> ::core::future::Future<Output = #reply>);
                let future = quote_spanned!(at=> impl #future + ::core::marker::Send);
                let body = if fails {
                    let body = checked(quote_spanned!(at=> #call.await));
                    quote_spanned!(at=> async move { #body })
                } else {
                    call
                };
                ("AsyncHandler", None, future, body)
            }
        };
        let handler = Ident::new(handler, at);
        let port = port.map(|name| quote_spanned!(at=> #name: #krate::Deferred<#reply>,));
        let coalesce_key = method.options.coalesce.as_ref().map(|key| {
            let names = method.fields.iter().map(|it| &it.name);
            let message_name = self.message_name(method);
            quote_spanned! {at=>
                fn coalesce_key(#msg: &#message) -> ::core::option::Option<u64> {
                    let #message_name { #(#names),* } = #msg;
                    ::core::option::Option::Some(#key)
                }
            }
        });
        quote_spanned! {at=>
            #(#conditions)*
            #[automatically_derived]
            #[allow(deprecated, unused_variables, clippy::manual_async_fn)]
            impl #generics #krate::#handler<#message> for #self_ty #bounds {
                type Reply = #reply;

                fn handle(&mut self, #msg: #message, #port #cx: &mut #krate::Context<Self>) -> #returned {
                    #body
                }

                #coalesce_key
            }
        }
    }

    /// The trait of the methods of one visibility, and its implementation for the reference.
    fn calls(&self, vis: &Visibility, name: &Ident, methods: &[&Method]) -> TokenStream {
        let at = at(self.self_ty.span());
        let (krate, self_ty) = (self.krate(at), self.self_ty);
        let (generics, parameters, bounds) = self.generics.split_for_impl();
        let title = format!(
            "The handlers of `{}` as methods of its `ActorRef`. Each returns an `Ask`: `.await` it, or call `wait` or \
             `tell` on it; before, give it a deadline or a lane.",
            text(self_ty)
        );
        let signatures = methods.iter().map(|method| {
            let attributes = &method.attributes;
            let is_documented = attributes.iter().any(|it| it.path().is_ident("doc"));
            let fallback = format!("Sends the message `{}`.", self.message_name(method));
            let documentation = (!is_documented).then(|| quote!(#[doc = #fallback]));
            let signature = self.signature(method);
            quote!(#documentation #(#attributes)* #signature;)
        });
        let definitions = methods.iter().map(|method| self.definition(method));
        quote_spanned! {at=>
            #[doc = #title]
            #[allow(dead_code, private_bounds, private_interfaces, unreachable_pub)]
            #vis trait #name #generics #bounds {
                #(#signatures)*
            }

            #[automatically_derived]
            #[allow(private_interfaces)]
            impl #generics #name #parameters for #krate::ActorRef<#self_ty> #bounds {
                #(#definitions)*
            }
        }
    }

    fn definition(&self, method: &Method) -> TokenStream {
        let at = at(method.name.span());
        let (krate, name) = (self.krate(at), self.message_name(method));
        let conditions = method.conditions();
        let signature = self.signature(method);
        let mut names = method.fields.iter().map(|it| &it.name).peekable();
        let message = match names.peek() {
            Some(_) => quote!(#name { #(#names),* }),
            None => quote!(#name),
        };
        let lane = method.options.lane.iter();
        quote_spanned! {at=>
            #(#conditions)*
            #signature {
                #krate::ActorRef::ask(self, #message) #(.lane(#lane))*
            }
        }
    }

    fn signature(&self, method: &Method) -> TokenStream {
        let at = at(method.name.span());
        let (krate, self_ty, call) = (self.krate(at), self.self_ty, &method.call);
        let (message, _) = self.message(method);
        let reply = self.outside(&method.reply);
        let parameters = method.fields.iter().map(|it| {
            let (name, ty) = (&it.name, self.outside(&it.ty));
            quote!(#name: #ty)
        });
        quote_spanned! {at=>
            fn #call(&self, #(#parameters),*) -> #krate::Ask<#self_ty, #message, #reply>
        }
    }
}

/// Written by the macro, with the place of the user's text: the compiler's errors point there, and its lints know that
/// the user did not write it.
fn at(span: Span) -> Span {
    Span::call_site().located_at(span)
}

/// The place of a visibility, the widest first.
fn reach(vis: &Visibility) -> u8 {
    match restriction(vis) {
        "Public" => 0,
        "Crate" => 1,
        "Module" => 2,
        _ => 3,
    }
}

/// What the name of a trait of less visible methods has before `Calls`.
fn restriction(vis: &Visibility) -> &'static str {
    match vis {
        Visibility::Public(_) => "Public",
        Visibility::Restricted(it) if it.path.is_ident("crate") => "Crate",
        Visibility::Restricted(it) if !it.path.is_ident("self") => "Module",
        _ => "Private",
    }
}

/// The tokens as a user writes a type.
fn text(tokens: &impl ToTokens) -> String {
    let text = tokens.to_token_stream().to_string();
    text.replace(" <", "<")
        .replace("< ", "<")
        .replace(" >", ">")
        .replace(" ,", ",")
        .replace(" :: ", "::")
}
