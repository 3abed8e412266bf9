import * as $protobuf from "protobufjs";
import Long = require("long");

/** Namespace demo. */
export namespace demo {

    /**
     * Properties of a Q.
     * @deprecated Use demo.Q.$Properties instead.
     */
    interface IQ extends demo.Q.$Properties {
    }

    /** Represents a Q. */
    class Q {

        /**
         * Constructs a new Q.
         * @param [properties] Properties to set
         */
        constructor(properties?: demo.Q.$Properties);

        /** Unknown fields preserved while decoding when enabled */
        $unknowns?: Uint8Array[];

        /** Q number. */
        number: number;

        /** Q text. */
        text: string;

        /** Q data. */
        data: Uint8Array;

        /** Q inner. */
        inner?: (demo.Q.$Properties|null);

        /** Q words. */
        words: string[];

        /**
         * Creates a new Q instance using the specified properties.
         * @param [properties] Properties to set
         * @returns Q instance
         */
        static create(properties: demo.Q.$Shape): demo.Q & demo.Q.$Shape;
        static create(properties?: demo.Q.$Properties): demo.Q;

        /**
         * Encodes the specified Q message. Does not implicitly {@link demo.Q.verify|verify}
         * messages.
         * @param message Q message or plain object to encode
         * @param [writer] Writer to encode to
         * @returns Writer
         */
        static encode(message: demo.Q.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

        /**
         * Encodes the specified Q message, length delimited. Does not implicitly {@link
         * demo.Q.verify|verify} messages.
         * @param message Q message or plain object to encode
         * @param [writer] Writer to encode to
         * @returns Writer
         */
        static encodeDelimited(message: demo.Q.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

        /**
         * Decodes a Q message from the specified reader or buffer.
         * @param reader Reader or buffer to decode from
         * @param [length] Message length if known beforehand
         * @returns {demo.Q & demo.Q.$Shape} Q
         * @throws {Error} If the payload is not a reader or valid buffer
         * @throws {$protobuf.util.ProtocolError} If required fields are missing
         */
        static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): demo.Q & demo.Q.$Shape;

        /**
         * Decodes a Q message from the specified reader or buffer, length delimited.
         * @param reader Reader or buffer to decode from
         * @returns {demo.Q & demo.Q.$Shape} Q
         * @throws {Error} If the payload is not a reader or valid buffer
         * @throws {$protobuf.util.ProtocolError} If required fields are missing
         */
        static decodeDelimited(reader: ($protobuf.Reader|Uint8Array)): demo.Q & demo.Q.$Shape;

        /**
         * Verifies a Q message.
         * @param message Plain object to verify
         * @returns `null` if valid, otherwise the reason why it is not
         */
        static verify(message: { [k: string]: any }): (string|null);

        /**
         * Creates a Q message from a plain object. Also converts values to their respective
         * internal types.
         * @param object Plain object
         * @returns Q
         */
        static fromObject(object: { [k: string]: any }): demo.Q;

        /**
         * Creates a plain object from a Q message. Also converts values to other types if
         * specified.
         * @param message Q
         * @param [options] Conversion options
         * @returns Plain object
         */
        static toObject(message: demo.Q, options?: $protobuf.IConversionOptions): { [k: string]: any };

        /**
         * Converts this Q to JSON.
         * @returns JSON object
         */
        toJSON(): { [k: string]: any };

        /**
         * Gets the type url for Q
         * @param [prefix] Custom type url prefix, defaults to `"type.googleapis.com"`
         * @returns The type url
         */
        static getTypeUrl(prefix?: string): string;
    }

    namespace Q {

        /** Properties of a Q. */
        interface $Properties {

            /** Q number */
            number?: (number|null);

            /** Q text */
            text?: (string|null);

            /** Q data */
            data?: (Uint8Array|null);

            /** Q inner */
            inner?: (demo.Q.$Properties|null);

            /** Q words */
            words?: (string[]|null);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];
        }

        /** Shape of a Q. */
        type $Shape = demo.Q.$Properties;
    }

    /**
     * Properties of a A.
     * @deprecated Use demo.A.$Properties instead.
     */
    interface IA extends demo.A.$Properties {
    }

    /** Represents a A. */
    class A {

        /**
         * Constructs a new A.
         * @param [properties] Properties to set
         */
        constructor(properties?: demo.A.$Properties);

        /** Unknown fields preserved while decoding when enabled */
        $unknowns?: Uint8Array[];

        /** A number. */
        number: number;

        /** A text. */
        text: string;

        /** A data. */
        data: Uint8Array;

        /**
         * Creates a new A instance using the specified properties.
         * @param [properties] Properties to set
         * @returns A instance
         */
        static create(properties: demo.A.$Shape): demo.A & demo.A.$Shape;
        static create(properties?: demo.A.$Properties): demo.A;

        /**
         * Encodes the specified A message. Does not implicitly {@link demo.A.verify|verify}
         * messages.
         * @param message A message or plain object to encode
         * @param [writer] Writer to encode to
         * @returns Writer
         */
        static encode(message: demo.A.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

        /**
         * Encodes the specified A message, length delimited. Does not implicitly {@link
         * demo.A.verify|verify} messages.
         * @param message A message or plain object to encode
         * @param [writer] Writer to encode to
         * @returns Writer
         */
        static encodeDelimited(message: demo.A.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

        /**
         * Decodes a A message from the specified reader or buffer.
         * @param reader Reader or buffer to decode from
         * @param [length] Message length if known beforehand
         * @returns {demo.A & demo.A.$Shape} A
         * @throws {Error} If the payload is not a reader or valid buffer
         * @throws {$protobuf.util.ProtocolError} If required fields are missing
         */
        static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): demo.A & demo.A.$Shape;

        /**
         * Decodes a A message from the specified reader or buffer, length delimited.
         * @param reader Reader or buffer to decode from
         * @returns {demo.A & demo.A.$Shape} A
         * @throws {Error} If the payload is not a reader or valid buffer
         * @throws {$protobuf.util.ProtocolError} If required fields are missing
         */
        static decodeDelimited(reader: ($protobuf.Reader|Uint8Array)): demo.A & demo.A.$Shape;

        /**
         * Verifies a A message.
         * @param message Plain object to verify
         * @returns `null` if valid, otherwise the reason why it is not
         */
        static verify(message: { [k: string]: any }): (string|null);

        /**
         * Creates a A message from a plain object. Also converts values to their respective
         * internal types.
         * @param object Plain object
         * @returns A
         */
        static fromObject(object: { [k: string]: any }): demo.A;

        /**
         * Creates a plain object from a A message. Also converts values to other types if
         * specified.
         * @param message A
         * @param [options] Conversion options
         * @returns Plain object
         */
        static toObject(message: demo.A, options?: $protobuf.IConversionOptions): { [k: string]: any };

        /**
         * Converts this A to JSON.
         * @returns JSON object
         */
        toJSON(): { [k: string]: any };

        /**
         * Gets the type url for A
         * @param [prefix] Custom type url prefix, defaults to `"type.googleapis.com"`
         * @returns The type url
         */
        static getTypeUrl(prefix?: string): string;
    }

    namespace A {

        /** Properties of a A. */
        interface $Properties {

            /** A number */
            number?: (number|null);

            /** A text */
            text?: (string|null);

            /** A data */
            data?: (Uint8Array|null);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];
        }

        /** Shape of a A. */
        type $Shape = demo.A.$Properties;
    }

    /** Represents an Indexer */
    class Indexer extends $protobuf.rpc.Service {

        /**
         * Constructs a new Indexer service.
         * @param rpcImpl RPC implementation
         * @param [requestDelimited=false] Whether requests are length-delimited
         * @param [responseDelimited=false] Whether responses are length-delimited
         */
        constructor(rpcImpl: $protobuf.RPCImpl, requestDelimited?: boolean, responseDelimited?: boolean);

        /**
         * Creates new Indexer service using the specified rpc implementation.
         * @param rpcImpl RPC implementation
         * @param [requestDelimited=false] Whether requests are length-delimited
         * @param [responseDelimited=false] Whether responses are length-delimited
         * @returns RPC service. Useful where requests and/or responses are streamed.
         */
        static create(rpcImpl: $protobuf.RPCImpl, requestDelimited?: boolean, responseDelimited?: boolean): Indexer;

        /** Calls AddOne. */
        addOne: demo.Indexer.AddOne;

        /** Calls list_all. */
        list_all: demo.Indexer.list_all;

        /** Calls Upload. */
        upload: demo.Indexer.Upload;

        /** Calls Chat. */
        chat: demo.Indexer.Chat;
    }

    namespace Indexer {

        /**
         * Callback as used by {@link demo.Indexer#addOne}.
         * @param error Error, if any
         * @param [response] A
         */
        type AddOneCallback = (error: (Error|null), response?: demo.A) => void;

        /** Calls AddOne. */
        type AddOne = {
          (request: demo.IQ, callback: demo.Indexer.AddOneCallback): void;
          (request: demo.IQ): Promise<demo.A>;
          readonly name: "AddOne";
          readonly path: "/demo.Indexer/AddOne";
          readonly requestType: "Q";
          readonly responseType: "A";
          readonly requestStream: undefined;
          readonly responseStream: undefined;
        };

        /**
         * Callback as used by {@link demo.Indexer#list_all}.
         * @param error Error, if any
         * @param [response] A
         */
        type list_allCallback = (error: (Error|null), response?: demo.A) => void;

        /** Calls list_all. */
        type list_all = {
          (request: demo.IQ, callback: demo.Indexer.list_allCallback): void;
          (request: demo.IQ): Promise<demo.A>;
          readonly name: "list_all";
          readonly path: "/demo.Indexer/list_all";
          readonly requestType: "Q";
          readonly responseType: "A";
          readonly requestStream: undefined;
          readonly responseStream: true;
        };

        /**
         * Callback as used by {@link demo.Indexer#upload}.
         * @param error Error, if any
         * @param [response] A
         */
        type UploadCallback = (error: (Error|null), response?: demo.A) => void;

        /** Calls Upload. */
        type Upload = {
          (request: demo.IQ, callback: demo.Indexer.UploadCallback): void;
          (request: demo.IQ): Promise<demo.A>;
          readonly name: "Upload";
          readonly path: "/demo.Indexer/Upload";
          readonly requestType: "Q";
          readonly responseType: "A";
          readonly requestStream: true;
          readonly responseStream: undefined;
        };

        /**
         * Callback as used by {@link demo.Indexer#chat}.
         * @param error Error, if any
         * @param [response] A
         */
        type ChatCallback = (error: (Error|null), response?: demo.A) => void;

        /** Calls Chat. */
        type Chat = {
          (request: demo.IQ, callback: demo.Indexer.ChatCallback): void;
          (request: demo.IQ): Promise<demo.A>;
          readonly name: "Chat";
          readonly path: "/demo.Indexer/Chat";
          readonly requestType: "Q";
          readonly responseType: "A";
          readonly requestStream: true;
          readonly responseStream: true;
        };
    }
}
