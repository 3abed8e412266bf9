// Compares the descriptors of a root of protobufjs with those that protoc makes of the same files.
//
//	descriptors GOT EXPECTED
//
// Each is a file with a FileDescriptorSet. Prints each difference on a line of its own, and exits
// with 1 where there is one.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

var differences int

func differ(name protoreflect.FullName, what string, expected, got any) {
	differences++
	fmt.Printf("%s: %s is %v, expected %v\n", name, what, got, expected)
}

func main() {
	got, expected := read(os.Args[1]), read(os.Args[2])
	expected.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		compareFile(file, got)
		return true
	})
	if differences > 0 {
		os.Exit(1)
	}
}

// Reads a set as tools do, which refuses what is wrong in itself.
func read(path string) *protoregistry.Files {
	bytes, err := os.ReadFile(path)
	check(err)
	set := &descriptorpb.FileDescriptorSet{}
	check(proto.Unmarshal(bytes, set))
	files, err := protodesc.NewFiles(set)
	check(err)
	return files
}

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func compareFile(file protoreflect.FileDescriptor, got *protoregistry.Files) {
	// Of what the library itself has, a root keeps what it has loaded.
	isOptional := strings.HasPrefix(file.Path(), "google/protobuf/")
	find := func(each protoreflect.Descriptor) protoreflect.Descriptor {
		found, err := got.FindDescriptorByName(each.FullName())
		if err != nil && !isOptional {
			differ(each.FullName(), "descriptor", "there", "missing")
		}
		return found
	}
	compareTypes(file, find)
	for at := range file.Services().Len() {
		expected := file.Services().Get(at)
		if found := find(expected); found != nil {
			compareServices(expected, found.(protoreflect.ServiceDescriptor))
		}
	}
}

type types interface {
	Messages() protoreflect.MessageDescriptors
	Enums() protoreflect.EnumDescriptors
	Extensions() protoreflect.ExtensionDescriptors
}

func compareTypes(space types, find func(protoreflect.Descriptor) protoreflect.Descriptor) {
	for at := range space.Messages().Len() {
		expected := space.Messages().Get(at)
		if found := find(expected); found != nil {
			compareMessages(expected, found.(protoreflect.MessageDescriptor))
			compareTypes(expected, find)
		}
	}
	for at := range space.Enums().Len() {
		expected := space.Enums().Get(at)
		if found := find(expected); found != nil {
			compareEnums(expected, found.(protoreflect.EnumDescriptor))
		}
	}
	for at := range space.Extensions().Len() {
		expected := space.Extensions().Get(at)
		if isOption(expected) {
			continue
		}
		if found := find(expected); found != nil {
			compareFields(expected, found.(protoreflect.FieldDescriptor))
		}
	}
}

// Options of a file's own are for compilers: descriptors are given without their values.
func isOption(field protoreflect.FieldDescriptor) bool {
	name := field.ContainingMessage().FullName()
	return name.Parent() == "google.protobuf" && strings.HasSuffix(string(name), "Options")
}

func compare[T comparable](name protoreflect.FullName, what string, expected, got T) {
	if expected != got {
		differ(name, what, expected, got)
	}
}

func compareMessages(expected, got protoreflect.MessageDescriptor) {
	name := expected.FullName()
	compare(name, "number of fields", expected.Fields().Len(), got.Fields().Len())
	compare(name, "number of oneofs", expected.Oneofs().Len(), got.Oneofs().Len())
	compare(name, "entry of a map", expected.IsMapEntry(), got.IsMapEntry())
	compare(name, "ranges of extensions", ranges(expected.ExtensionRanges()), ranges(got.ExtensionRanges()))
	compare(name, "reserved numbers", ranges(expected.ReservedRanges()), ranges(got.ReservedRanges()))
	for at := range expected.Fields().Len() {
		field := expected.Fields().Get(at)
		found := got.Fields().ByNumber(field.Number())
		if found == nil {
			differ(field.FullName(), "field", "there", "missing")
			continue
		}
		compareFields(field, found)
	}
}

func ranges(all protoreflect.FieldRanges) string {
	text := []string{}
	for at := range all.Len() {
		text = append(text, fmt.Sprint(all.Get(at)))
	}
	slices.Sort(text)
	return strings.Join(text, " ")
}

func compareFields(expected, got protoreflect.FieldDescriptor) {
	name := expected.FullName()
	compare(name, "name", name, got.FullName())
	compare(name, "number", expected.Number(), got.Number())
	compare(name, "name in JSON", expected.JSONName(), got.JSONName())
	compare(name, "kind", expected.Kind(), got.Kind())
	compare(name, "cardinality", expected.Cardinality(), got.Cardinality())
	compare(name, "presence", expected.HasPresence(), got.HasPresence())
	compare(name, "packed", expected.IsPacked(), got.IsPacked())
	compare(name, "map", expected.IsMap(), got.IsMap())
	compare(name, "has a default", expected.HasDefault(), got.HasDefault())
	compare(name, "checks UTF-8", enforcesUtf8(expected), enforcesUtf8(got))
	compare(name, "message", nameOf(expected.Message()), nameOf(got.Message()))
	compare(name, "enum", nameOf(expected.Enum()), nameOf(got.Enum()))
	compare(name, "extended", nameOf(expected.ContainingMessage()), nameOf(got.ContainingMessage()))
	compare(name, "oneof", oneofOf(expected), oneofOf(got))
	if expected.HasDefault() && got.HasDefault() {
		if expected.Enum() != nil {
			compare(name, "default", expected.DefaultEnumValue().Name(), got.DefaultEnumValue().Name())
		} else {
			compare(name, "default", expected.Default().String(), got.Default().String())
		}
	}
	if oneof := expected.ContainingOneof(); oneof != nil && got.ContainingOneof() != nil {
		compare(name, "optional", oneof.IsSynthetic(), got.ContainingOneof().IsSynthetic())
	}
}

// A root has the names of oneofs in camel case; no message has them.
func oneofOf(field protoreflect.FieldDescriptor) string {
	oneof := field.ContainingOneof()
	if oneof == nil {
		return ""
	}
	return strings.ToLower(strings.ReplaceAll(string(oneof.FullName()), "_", ""))
}

func enforcesUtf8(field protoreflect.FieldDescriptor) bool {
	told, ok := field.(interface{ EnforceUTF8() bool })
	return ok && told.EnforceUTF8()
}

func nameOf(each protoreflect.Descriptor) protoreflect.FullName {
	if each == nil {
		return ""
	}
	return each.FullName()
}

func compareEnums(expected, got protoreflect.EnumDescriptor) {
	name := expected.FullName()
	compare(name, "closed", expected.IsClosed(), got.IsClosed())
	values := func(enum protoreflect.EnumDescriptor) string {
		text := []string{}
		for at := range enum.Values().Len() {
			value := enum.Values().Get(at)
			text = append(text, fmt.Sprintf("%s=%d", value.Name(), value.Number()))
		}
		return strings.Join(text, " ")
	}
	compare(name, "values", values(expected), values(got))
}

func compareServices(expected, got protoreflect.ServiceDescriptor) {
	compare(expected.FullName(), "number of methods", expected.Methods().Len(), got.Methods().Len())
	for at := range expected.Methods().Len() {
		method := expected.Methods().Get(at)
		found := got.Methods().ByName(method.Name())
		if found == nil {
			differ(method.FullName(), "method", "there", "missing")
			continue
		}
		compare(method.FullName(), "request", method.Input().FullName(), found.Input().FullName())
		compare(method.FullName(), "response", method.Output().FullName(), found.Output().FullName())
		compare(method.FullName(), "streams", streams(method), streams(found))
	}
}

func streams(method protoreflect.MethodDescriptor) string {
	return fmt.Sprint(method.IsStreamingClient(), method.IsStreamingServer())
}
