// SPDX-License-Identifier: MIT
// grpc.reflection.v1 and v1alpha: names and descriptors of what is served, for tools such as
// grpcurl.
import protobufjs from 'protobufjs';
import { RpcError } from '../../base/errors.ts';
import type { CallContext } from '../../rpc/contract/call-context.ts';
import type { Handlers, Service } from '../../rpc/contract/method-types.ts';
import { FileDescriptors } from '../file-descriptors.ts';
import { protobufService } from '../protobuf.ts';

function reflectionOf(version: 'v1' | 'v1alpha') {
  const name = `grpc.reflection.${version}`;
  const proto = `syntax = "proto3";
package ${name};
message ServerReflectionRequest {
  string host = 1;
  oneof message_request {
    string file_by_filename = 3;
    string file_containing_symbol = 4;
    ExtensionRequest file_containing_extension = 5;
    string all_extension_numbers_of_type = 6;
    string list_services = 7;
  }
}
message ExtensionRequest { string containing_type = 1; int32 extension_number = 2; }
message ServerReflectionResponse {
  string valid_host = 1;
  ServerReflectionRequest original_request = 2;
  oneof message_response {
    FileDescriptorResponse file_descriptor_response = 4;
    ExtensionNumberResponse all_extension_numbers_response = 5;
    ListServiceResponse list_services_response = 6;
    ErrorResponse error_response = 7;
  }
}
message FileDescriptorResponse { repeated bytes file_descriptor_proto = 1; }
message ExtensionNumberResponse { string base_type_name = 1; repeated int32 extension_number = 2; }
message ListServiceResponse { repeated ServiceResponse service = 1; }
message ServiceResponse { string name = 1; }
message ErrorResponse { int32 error_code = 1; string error_message = 2; }
service ServerReflection {
  rpc ServerReflectionInfo(stream ServerReflectionRequest) returns (stream ServerReflectionResponse);
}`;
  return protobufService(protobufjs.parse(proto).root.lookupService(`${name}.ServerReflection`));
}

/** The contract of `grpc.reflection.v1.ServerReflection`. */
export const GrpcReflection = reflectionOf('v1');
/** The same of `v1alpha`, which older tools ask. */
export const GrpcReflectionAlpha = reflectionOf('v1alpha');

/** A request as protobufjs decodes it: one of the members but `host` is set. */
interface ReflectionRequest {
  readonly host: string;
  readonly fileByFilename?: string;
  readonly fileContainingSymbol?: string;
  readonly fileContainingExtension?: {
    readonly containingType?: string;
    readonly extensionNumber?: number;
  };
  readonly allExtensionNumbersOfType?: string;
  readonly listServices?: string;
  readonly messageRequest?: keyof ReflectionRequest;
}

const notFound = 5;
const unimplemented = 12;

/**
 * Handlers that tell of the services of the moment.
 * @param isAllowed every caller, or none, may ask; undefined: those of our own uid.
 * @throws {TypeError} `ERR_INVALID_ARG_VALUE` for a service whose descriptor cannot be made.
 */
export function grpcReflectionHandlers(
  services: () => readonly Service[],
  isAllowed: boolean | undefined,
): Handlers<typeof GrpcReflection.methods> {
  let described: readonly Service[] = [];
  let known = new FileDescriptors([]);
  const describe = (): FileDescriptors => {
    const now = services();
    if (now.length === described.length && now.every((each, at) => each === described[at]))
      return known;
    const own = [GrpcReflection as unknown as Service, GrpcReflectionAlpha as unknown as Service];
    known = new FileDescriptors([...now, ...own]);
    described = now;
    return known;
  };
  describe();
  const handlers = {
    async *serverReflectionInfo(requests: AsyncIterable<ReflectionRequest>, ctx: CallContext) {
      const { uid } = ctx.peer;
      const isOurs = uid !== undefined && uid === process.geteuid?.();
      if (!(isAllowed ?? isOurs)) {
        const text = 'reflection is for callers of the own user here; see the option introspection';
        throw new RpcError('unimplemented', text);
      }
      const descriptors = describe();
      for await (const request of requests) {
        yield {
          validHost: request.host,
          originalRequest: request,
          ...answerOf(descriptors, request),
        };
      }
    },
  };
  return handlers as unknown as Handlers<typeof GrpcReflection.methods>;
}

function answerOf(known: FileDescriptors, request: ReflectionRequest): object {
  switch (request.messageRequest) {
    case 'listServices': {
      const service = known.serviceNames.map((name) => ({ name }));
      return { listServicesResponse: { service } };
    }
    case 'fileByFilename':
      return filesOf(known.byFile(request.fileByFilename as string), request.fileByFilename);
    case 'fileContainingSymbol': {
      const symbol = request.fileContainingSymbol as string;
      return filesOf(known.bySymbol(symbol), symbol);
    }
    case 'fileContainingExtension': {
      const { containingType = '', extensionNumber = 0 } = request.fileContainingExtension ?? {};
      const files = known.byExtension(containingType, extensionNumber);
      return filesOf(files, `${containingType}, extension ${extensionNumber}`);
    }
    case 'allExtensionNumbersOfType': {
      const baseTypeName = request.allExtensionNumbersOfType as string;
      if (known.bySymbol(baseTypeName) === undefined) return filesOf(undefined, baseTypeName);
      const extensionNumber = known.extensionsOf(baseTypeName);
      return { allExtensionNumbersResponse: { baseTypeName, extensionNumber } };
    }
    default:
      return failure(unimplemented, 'this server knows no such question');
  }
}

function filesOf(files: readonly Uint8Array[] | undefined, name: string | undefined): object {
  if (files !== undefined) return { fileDescriptorResponse: { fileDescriptorProto: files } };
  return failure(notFound, `there is no descriptor of '${name ?? ''}' here`);
}

function failure(errorCode: number, errorMessage: string): object {
  return { errorResponse: { errorCode, errorMessage } };
}
