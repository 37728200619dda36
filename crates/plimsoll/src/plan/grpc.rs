//! The message of a gRPC call, encoded from JSON by the description of its method.
//!
//! [`message`] decodes the FileDescriptorSet of `--grpc-descriptor`, finds the input type of
//! `package.Service/Method`, and encodes the JSON body as that type. An empty body is a message with the default of
//! every field. Streaming methods and unknown names are usage errors; an error lists at most eight names that exist.
//! Start with [`message`].

use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use serde_json::Deserializer;

use crate::exit::Result;

/// Names that an error lists, at most.
const NAMED_MAX: usize = 8;

/// Encodes `json` as the message that `method` (`package.Service/Method`) takes, by a FileDescriptorSet.
pub(super) fn message(descriptors: &[u8], method: &str, json: &[u8]) -> Result<Vec<u8>> {
    let input = input_of(descriptors, method)?;
    let name = input.full_name().to_owned();
    // No body is a message whose fields have their defaults.
    let json = if json.is_empty() { b"{}" } else { json };
    let mut reader = Deserializer::from_slice(json);
    let read = DynamicMessage::deserialize(input, &mut reader);
    let read = read.and_then(|message| reader.end().map(|()| message));
    read.map(|message| message.encode_to_vec()).map_err(|error| {
        usage!("the body is not the message {name} in JSON: {error}";
            "write its fields by their names, as in --data '{{\"name\": \"a\"}}'")
    })
}

fn input_of(descriptors: &[u8], method: &str) -> Result<MessageDescriptor> {
    let pool = DescriptorPool::decode(descriptors).map_err(|error| usage!(
        "--grpc-descriptor is not a complete set of descriptors: {error}";
        "make one with `protoc --include_imports --descriptor_set_out FILE …` or `buf build -o FILE`"))?;
    let (service, method) = method.split_once('/').unwrap_or((method, ""));
    let Some(found) = pool.get_service_by_name(service) else {
        let there = listed(pool.services().map(|service| service.full_name().to_owned()));
        refuse!("--grpc-descriptor has no service {service}"; "it has {there}");
    };
    let Some(method) = found.methods().find(|known| known.name() == method) else {
        let there = listed(found.methods().map(|method| method.name().to_owned()));
        refuse!("the service {service} has no method {method}"; "it has {there}");
    };
    let streams = match (method.is_client_streaming(), method.is_server_streaming()) {
        (true, true) => Some("its requests and its answers"),
        (true, false) => Some("its requests"),
        (false, true) => Some("its answers"),
        (false, false) => None,
    };
    if let Some(what) = streams {
        refuse!("{} streams {what}: only unary methods are supported", method.full_name();
            "name a method that takes one message and returns one");
    }
    Ok(method.input())
}

fn listed(names: impl Iterator<Item = String>) -> String {
    let names: Vec<_> = names.collect();
    match names.get(NAMED_MAX..) {
        _ if names.is_empty() => "none".to_owned(),
        Some([_, ..]) => format!("{} and others", names[..NAMED_MAX].join(", ")),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
    use prost_reflect::prost_types::{
        DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
        MethodDescriptorProto, ServiceDescriptorProto,
    };

    use super::*;
    use crate::exit::Stop;

    fn field(name: &str, number: i32, kind: Type, label: Label) -> FieldDescriptorProto {
        FieldDescriptorProto {
            name: Some(name.to_owned()),
            number: Some(number),
            r#type: Some(kind.into()),
            label: Some(label.into()),
            ..Default::default()
        }
    }

    /// Returns `a.Greeter`, with one method that takes one message, and three that stream.
    fn set() -> Vec<u8> {
        let message = DescriptorProto {
            name: Some("Hello".to_owned()),
            field: vec![
                field("name", 1, Type::String, Label::Optional),
                field("times", 2, Type::Int32, Label::Repeated),
            ],
            ..Default::default()
        };
        let method = |name: &str, takes: bool, returns: bool| MethodDescriptorProto {
            name: Some(name.to_owned()),
            input_type: Some(".a.Hello".to_owned()),
            output_type: Some(".a.Hello".to_owned()),
            client_streaming: Some(takes),
            server_streaming: Some(returns),
            ..Default::default()
        };
        let service = ServiceDescriptorProto {
            name: Some("Greeter".to_owned()),
            method: vec![
                method("Greet", false, false),
                method("Watch", false, true),
                method("Upload", true, false),
                method("Chat", true, true),
            ],
            ..Default::default()
        };
        let file = FileDescriptorProto {
            name: Some("a.proto".to_owned()),
            package: Some("a".to_owned()),
            message_type: vec![message],
            service: vec![service],
            syntax: Some("proto3".to_owned()),
            ..Default::default()
        };
        FileDescriptorSet { file: vec![file] }.encode_to_vec()
    }

    #[test]
    fn json_becomes_a_message() {
        let encoded = |json: &str| message(&set(), "a.Greeter/Greet", json.as_bytes());
        assert_eq!(encoded(""), Ok(Vec::new()));
        let bytes = [&[0x0A, 2][..], b"Bo", &[0x12, 3, 1, 0x80, 1]].concat();
        assert_eq!(encoded("{\"name\": \"Bo\", \"times\": [1, 128]}"), Ok(bytes));
    }

    #[test]
    fn what_does_not_fit_is_told_in_one_line() {
        for (descriptors, method, json, what) in [
            (&b"not one"[..], "a.Greeter/Greet", "", "not a complete set of descriptors"),
            (&set(), "b.Greeter/Greet", "", "no service b.Greeter; it has a.Greeter"),
            (&set(), "a.Greeter/Leave", "", "no method Leave; it has Greet, Watch, Upload, Chat"),
            (&set(), "a.Greeter/Watch", "", "a.Greeter.Watch streams its answers: only unary"),
            (&set(), "a.Greeter/Upload", "", "a.Greeter.Upload streams its requests: only unary"),
            (&set(), "a.Greeter/Chat", "", "a.Greeter.Chat streams its requests and its answers"),
            (&set(), "a.Greeter/Greet", "{\"nmae\": 1}", "not the message a.Hello in JSON"),
            (&set(), "a.Greeter/Greet", "{} {}", "not the message a.Hello in JSON"),
            (&set(), "a.Greeter/Greet", "hello", "not the message a.Hello in JSON"),
        ] {
            let Err(Stop::Usage(refused)) = message(descriptors, method, json.as_bytes()) else {
                panic!("{method} {json} is taken");
            };
            assert!(refused.contains(what), "{refused}");
            assert_eq!(refused.lines().count(), 1, "{refused}");
        }
    }
}
