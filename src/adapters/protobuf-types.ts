// SPDX-License-Identifier: MIT
// Types of the services of a static module of protobufjs: methods with the types of their messages.
import type {
  BidiMethod,
  ClientStreamMethod,
  ServerStreamMethod,
  UnaryMethod,
} from '../rpc/contract/method-types.ts';

/** A service of a static module (`pbjs -t static-module`): its class. */
export interface StaticService {
  // biome-ignore lint/suspicious/noExplicitAny: any service, whatever its messages are
  readonly prototype: any;
}

type Named<Space, Name extends string> = Name extends keyof Space
  ? Space[Name]
  : Name extends `${infer First}.${infer Rest}`
    ? First extends keyof Space
      ? Named<Space[First], Rest>
      : never
    : never;
type Parent<Scope extends string> = Scope extends `${infer First}.${infer Rest}`
  ? Rest extends `${string}.${string}`
    ? `${First}.${Parent<Rest>}`
    : First
  : '';
/** A message type by its name, from a package outwards, as protobuf looks names up. */
type InScope<Space, Scope extends string, Name extends string> = Scope extends ''
  ? Named<Space, Name>
  : [Named<Space, `${Scope}.${Name}`>] extends [never]
    ? InScope<Space, Parent<Scope>, Name>
    : Named<Space, `${Scope}.${Name}`>;
type Within<Space, Scope extends string, Name> = Name extends `${Scope}.${infer Rest}`
  ? Named<Space, Rest>
  : never;
type Absolute<Name extends string> = Name extends `.${infer Rest}` ? Rest : Name;
type PackageOf<Path extends string> = Path extends `/${infer Full}/${string}` ? Parent<Full> : '';
/** `Space` is the whole module, or the namespace of the service's own package. */
type Message<Space, Path extends string, Name extends string> = [
  InScope<Space, PackageOf<Path>, Absolute<Name>>,
] extends [never]
  ? Within<Space, PackageOf<Path>, Absolute<Name>>
  : InScope<Space, PackageOf<Path>, Absolute<Name>>;
type Decoded<Type> = Type extends { decode(...args: never[]): infer T } ? T : never;
type Encoded<Type> = Type extends { encode(message: infer T, ...rest: never[]): unknown }
  ? T
  : never;

export interface StaticMethod {
  readonly path: string;
  readonly requestType: string;
  readonly responseType: string;
  readonly requestStream: true | undefined;
  readonly responseStream: true | undefined;
}

type MethodOf<M extends StaticMethod, Req, Res> = M['requestStream'] extends true
  ? M['responseStream'] extends true
    ? BidiMethod<Decoded<Req>, Decoded<Res>, Encoded<Req>, Encoded<Res>>
    : ClientStreamMethod<Decoded<Req>, Decoded<Res>, Encoded<Req>, Encoded<Res>>
  : M['responseStream'] extends true
    ? ServerStreamMethod<Decoded<Req>, Decoded<Res>, Encoded<Req>, Encoded<Res>>
    : UnaryMethod<Decoded<Req>, Decoded<Res>, Encoded<Req>, Encoded<Res>>;

type CamelCase<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Uncapitalize<Head>}${Capitalize<CamelCase<Tail>>}`
  : Uncapitalize<Name>;

/** Methods of a static service, typed by its messages. */
export type StaticMethods<S extends StaticService, Space> = {
  readonly [Name in keyof S['prototype'] as S['prototype'][Name] extends StaticMethod
    ? CamelCase<Name & string>
    : never]: S['prototype'][Name] extends StaticMethod
    ? MethodOf<
        S['prototype'][Name],
        Message<Space, S['prototype'][Name]['path'], S['prototype'][Name]['requestType']>,
        Message<Space, S['prototype'][Name]['path'], S['prototype'][Name]['responseType']>
      >
    : never;
};
