/*eslint-disable block-scoped-var, id-length, no-control-regex, no-magic-numbers, no-mixed-operators, no-prototype-builtins, no-redeclare, no-shadow, no-var, sort-vars, default-case, jsdoc/require-param*/
import $protobuf from "protobufjs/minimal.js";

// Common aliases
const $Reader = $protobuf.Reader, $Writer = $protobuf.Writer, $util = $protobuf.util;
const $Object = $util.global.Object, $undefined = $util.global.undefined, $Error = $util.global.Error, $RangeError = $util.global.RangeError, $Array = $util.global.Array, $TypeError = $util.global.TypeError, $Number = $util.global.Number, $String = $util.global.String;

// Exported root namespace
const $root = $protobuf.roots["default"] || ($protobuf.roots["default"] = {});

export const demo = $root.demo = (() => {

    /**
     * Namespace demo.
     * @exports demo
     * @namespace
     */
    const demo = {};

    demo.Q = (function() {

        /**
         * Properties of a Q.
         * @typedef {Object} demo.Q.$Properties
         * @property {number|null} [number] Q number
         * @property {string|null} [text] Q text
         * @property {Uint8Array|null} [data] Q data
         * @property {demo.Q.$Properties|null} [inner] Q inner
         * @property {Array.<string>|null} [words] Q words
         * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
         */

        /**
         * Properties of a Q.
         * @memberof demo
         * @interface IQ
         * @augments demo.Q.$Properties
         * @deprecated Use demo.Q.$Properties instead.
         */

        /**
         * Shape of a Q.
         * @typedef {demo.Q.$Properties} demo.Q.$Shape
         */

        /**
         * Constructs a new Q.
         * @memberof demo
         * @classdesc Represents a Q.
         * @constructor
         * @param {demo.Q.$Properties=} [properties] Properties to set
         * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
         */
        const Q = function (properties) {
            this.words = [];
            if (properties)
                for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                    if (properties[keys[i]] != null && keys[i] !== "__proto__")
                        this[keys[i]] = properties[keys[i]];
        };

        /**
         * Q number.
         * @member {number} number
         * @memberof demo.Q
         * @instance
         */
        Q.prototype.number = 0;

        /**
         * Q text.
         * @member {string} text
         * @memberof demo.Q
         * @instance
         */
        Q.prototype.text = "";

        /**
         * Q data.
         * @member {Uint8Array} data
         * @memberof demo.Q
         * @instance
         */
        Q.prototype.data = $util.newBuffer([]);

        /**
         * Q inner.
         * @member {demo.Q.$Properties|null|undefined} inner
         * @memberof demo.Q
         * @instance
         */
        Q.prototype.inner = null;

        /**
         * Q words.
         * @member {Array.<string>} words
         * @memberof demo.Q
         * @instance
         */
        Q.prototype.words = $util.emptyArray;

        /**
         * Creates a new Q instance using the specified properties.
         * @function create
         * @memberof demo.Q
         * @static
         * @param {demo.Q.$Properties=} [properties] Properties to set
         * @returns {demo.Q} Q instance
         * @type {{
         *   (properties: demo.Q.$Shape): demo.Q & demo.Q.$Shape;
         *   (properties?: demo.Q.$Properties): demo.Q;
         * }}
         */
        Q.create = function(properties) {
            return new Q(properties);
        };

        /**
         * Encodes the specified Q message. Does not implicitly {@link demo.Q.verify|verify} messages.
         * @function encode
         * @memberof demo.Q
         * @static
         * @param {demo.Q.$Properties} message Q message or plain object to encode
         * @param {$protobuf.Writer} [writer] Writer to encode to
         * @returns {$protobuf.Writer} Writer
         */
        Q.encode = function (message, writer, _depth) {
            if (!writer)
                writer = $Writer.create();
            if (_depth === $undefined)
                _depth = 0;
            if (_depth > $util.recursionLimit)
                throw $Error("max depth exceeded");
            if (message.number != null && $Object.hasOwnProperty.call(message, "number") && message.number !== 0)
                writer.uint32(/* id 1, wireType 0 =*/8).int32(message.number);
            if (message.text != null && $Object.hasOwnProperty.call(message, "text") && message.text !== "")
                writer.uint32(/* id 2, wireType 2 =*/18).string(message.text);
            if (message.data != null && $Object.hasOwnProperty.call(message, "data") && message.data.length)
                writer.uint32(/* id 3, wireType 2 =*/26).bytes(message.data);
            if (message.inner != null && $Object.hasOwnProperty.call(message, "inner"))
                $root.demo.Q.encode(message.inner, writer.uint32(/* id 4, wireType 2 =*/34).fork(), _depth + 1).ldelim();
            if (message.words != null && message.words.length)
                for (let i = 0; i < message.words.length; ++i)
                    writer.uint32(/* id 5, wireType 2 =*/42).string(message.words[i]);
            if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                for (let i = 0; i < message.$unknowns.length; ++i)
                    writer.raw(message.$unknowns[i]);
            return writer;
        };

        /**
         * Encodes the specified Q message, length delimited. Does not implicitly {@link demo.Q.verify|verify} messages.
         * @function encodeDelimited
         * @memberof demo.Q
         * @static
         * @param {demo.Q.$Properties} message Q message or plain object to encode
         * @param {$protobuf.Writer} [writer] Writer to encode to
         * @returns {$protobuf.Writer} Writer
         */
        Q.encodeDelimited = function(message, writer) {
            return this.encode(message, (writer || $Writer.create()).fork()).ldelim();
        };

        /**
         * Decodes a Q message from the specified reader or buffer.
         * @function decode
         * @memberof demo.Q
         * @static
         * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
         * @param {number} [length] Message length if known beforehand
         * @returns {demo.Q & demo.Q.$Shape} Q
         * @throws {Error} If the payload is not a reader or valid buffer
         * @throws {$protobuf.util.ProtocolError} If required fields are missing
         */
        Q.decode = function (reader, length, _end, _depth, _target) {
            if (!(reader instanceof $Reader))
                reader = $Reader.create(reader);
            if (_depth === $undefined)
                _depth = 0;
            if (_depth > $Reader.recursionLimit)
                throw $Error("max depth exceeded");
            let end, message, value;
            if (length === $undefined)
                end = reader.len;
            else {
                end = reader.pos + length;
                if (end > reader.len)
                    throw $RangeError("index out of range");
                length = reader.len;
                reader.len = end;
            }
            message = _target || new $root.demo.Q();
            while (reader.pos < end) {
                let start = reader.pos;
                let tag = reader.tag();
                if (tag === _end) {
                    _end = $undefined;
                    break;
                }
                let wireType = tag & 7;
                switch (tag >>>= 3) {
                case 1: {
                        if (wireType !== 0)
                            break;
                        if (value = reader.int32())
                            message.number = value;
                        else
                            delete message.number;
                        continue;
                    }
                case 2: {
                        if (wireType !== 2)
                            break;
                        if ((value = reader.stringVerify()).length)
                            message.text = value;
                        else
                            delete message.text;
                        continue;
                    }
                case 3: {
                        if (wireType !== 2)
                            break;
                        if ((value = reader.bytes()).length)
                            message.data = value;
                        else
                            delete message.data;
                        continue;
                    }
                case 4: {
                        if (wireType !== 2)
                            break;
                        message.inner = $root.demo.Q.decode(reader, reader.size(), $undefined, _depth + 1, message.inner);
                        continue;
                    }
                case 5: {
                        if (wireType !== 2)
                            break;
                        if (!(message.words && message.words.length))
                            message.words = [];
                        message.words.push(reader.stringVerify());
                        continue;
                    }
                }
                reader.skipType(wireType, _depth, tag);
                if (!reader.discardUnknown) {
                    $util.makeProp(message, "$unknowns", false);
                    (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                }
            }
            if (length !== $undefined) {
                if (reader.pos !== end)
                    throw $RangeError("index out of range");
                reader.len = length;
            }
            if (_end !== $undefined)
                throw $Error("missing end group");
            return message;
        };

        /**
         * Decodes a Q message from the specified reader or buffer, length delimited.
         * @function decodeDelimited
         * @memberof demo.Q
         * @static
         * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
         * @returns {demo.Q & demo.Q.$Shape} Q
         * @throws {Error} If the payload is not a reader or valid buffer
         * @throws {$protobuf.util.ProtocolError} If required fields are missing
         */
        Q.decodeDelimited = function(reader) {
            if (!(reader instanceof $Reader))
                reader = new $Reader(reader);
            return this.decode(reader, reader.size());
        };

        /**
         * Verifies a Q message.
         * @function verify
         * @memberof demo.Q
         * @static
         * @param {Object.<string,*>} message Plain object to verify
         * @returns {string|null} `null` if valid, otherwise the reason why it is not
         */
        Q.verify = function (message, _depth) {
            if (typeof message !== "object" || message === null)
                return "object expected";
            if (_depth === $undefined)
                _depth = 0;
            if (_depth > $util.recursionLimit)
                return "max depth exceeded";
            if (message.number != null && $Object.hasOwnProperty.call(message, "number"))
                if (!$util.isInteger(message.number))
                    return "number: integer expected";
            if (message.text != null && $Object.hasOwnProperty.call(message, "text"))
                if (!$util.isString(message.text))
                    return "text: string expected";
            if (message.data != null && $Object.hasOwnProperty.call(message, "data"))
                if (!(message.data && typeof message.data.length === "number" || $util.isString(message.data)))
                    return "data: buffer expected";
            if (message.inner != null && $Object.hasOwnProperty.call(message, "inner")) {
                let error = $root.demo.Q.verify(message.inner, _depth + 1);
                if (error)
                    return "inner." + error;
            }
            if (message.words != null && $Object.hasOwnProperty.call(message, "words")) {
                if (!$Array.isArray(message.words))
                    return "words: array expected";
                for (let i = 0; i < message.words.length; ++i)
                    if (!$util.isString(message.words[i]))
                        return "words: string[] expected";
            }
            return null;
        };

        /**
         * Creates a Q message from a plain object. Also converts values to their respective internal types.
         * @function fromObject
         * @memberof demo.Q
         * @static
         * @param {Object.<string,*>} object Plain object
         * @returns {demo.Q} Q
         */
        Q.fromObject = function (object, _depth) {
            if (object instanceof $root.demo.Q)
                return object;
            if (!$util.isObject(object))
                throw $TypeError(".demo.Q: object expected");
            if (_depth === $undefined)
                _depth = 0;
            if (_depth > $util.recursionLimit)
                throw $Error("max depth exceeded");
            let message = new $root.demo.Q();
            if (object.number != null)
                if ($Number(object.number) !== 0)
                    message.number = object.number | 0;
            if (object.text != null)
                if (typeof object.text !== "string" || object.text.length)
                    message.text = $String(object.text);
            if (object.data != null)
                if (object.data.length)
                    if (typeof object.data === "string")
                        $util.base64.decode(object.data, message.data = $util.newBuffer($util.base64.length(object.data)), 0);
                    else if (object.data.length >= 0)
                        message.data = object.data;
            if (object.inner != null) {
                if (!$util.isObject(object.inner))
                    throw $TypeError(".demo.Q.inner: object expected");
                message.inner = $root.demo.Q.fromObject(object.inner, _depth + 1);
            }
            if (object.words) {
                if (!$Array.isArray(object.words))
                    throw $TypeError(".demo.Q.words: array expected");
                message.words = $Array(object.words.length);
                for (let i = 0; i < object.words.length; ++i)
                    message.words[i] = $String(object.words[i]);
            }
            return message;
        };

        /**
         * Creates a plain object from a Q message. Also converts values to other types if specified.
         * @function toObject
         * @memberof demo.Q
         * @static
         * @param {demo.Q} message Q
         * @param {$protobuf.IConversionOptions} [options] Conversion options
         * @returns {Object.<string,*>} Plain object
         */
        Q.toObject = function (message, options, _depth) {
            if (!options)
                options = {};
            if (_depth === $undefined)
                _depth = 0;
            if (_depth > $util.recursionLimit)
                throw $Error("max depth exceeded");
            let object = {};
            if (options.arrays || options.defaults)
                object.words = [];
            if (options.defaults) {
                object.number = 0;
                object.text = "";
                if (options.bytes === $String)
                    object.data = "";
                else {
                    object.data = [];
                    if (options.bytes !== $Array)
                        object.data = $util.newBuffer(object.data);
                }
                object.inner = null;
            }
            if (message.number != null && $Object.hasOwnProperty.call(message, "number"))
                object.number = message.number;
            if (message.text != null && $Object.hasOwnProperty.call(message, "text"))
                object.text = message.text;
            if (message.data != null && $Object.hasOwnProperty.call(message, "data"))
                object.data = options.bytes === $String ? $util.base64.encode(message.data, 0, message.data.length) : options.bytes === $Array ? $Array.prototype.slice.call(message.data) : message.data;
            if (message.inner != null && $Object.hasOwnProperty.call(message, "inner"))
                object.inner = $root.demo.Q.toObject(message.inner, options, _depth + 1);
            if (message.words && message.words.length) {
                object.words = $Array(message.words.length);
                for (let j = 0; j < message.words.length; ++j)
                    object.words[j] = message.words[j];
            }
            return object;
        };

        /**
         * Converts this Q to JSON.
         * @function toJSON
         * @memberof demo.Q
         * @instance
         * @returns {Object.<string,*>} JSON object
         */
        Q.prototype.toJSON = function() {
            return Q.toObject(this, $protobuf.util.toJSONOptions);
        };

        /**
         * Gets the type url for Q
         * @function getTypeUrl
         * @memberof demo.Q
         * @static
         * @param {string} [prefix] Custom type url prefix, defaults to `"type.googleapis.com"`
         * @returns {string} The type url
         */
        Q.getTypeUrl = function(prefix) {
            if (prefix === $undefined)
                prefix = "type.googleapis.com";
            return prefix + "/demo.Q";
        };

        return Q;
    })();

    demo.A = (function() {

        /**
         * Properties of a A.
         * @typedef {Object} demo.A.$Properties
         * @property {number|null} [number] A number
         * @property {string|null} [text] A text
         * @property {Uint8Array|null} [data] A data
         * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
         */

        /**
         * Properties of a A.
         * @memberof demo
         * @interface IA
         * @augments demo.A.$Properties
         * @deprecated Use demo.A.$Properties instead.
         */

        /**
         * Shape of a A.
         * @typedef {demo.A.$Properties} demo.A.$Shape
         */

        /**
         * Constructs a new A.
         * @memberof demo
         * @classdesc Represents a A.
         * @constructor
         * @param {demo.A.$Properties=} [properties] Properties to set
         * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
         */
        const A = function (properties) {
            if (properties)
                for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                    if (properties[keys[i]] != null && keys[i] !== "__proto__")
                        this[keys[i]] = properties[keys[i]];
        };

        /**
         * A number.
         * @member {number} number
         * @memberof demo.A
         * @instance
         */
        A.prototype.number = 0;

        /**
         * A text.
         * @member {string} text
         * @memberof demo.A
         * @instance
         */
        A.prototype.text = "";

        /**
         * A data.
         * @member {Uint8Array} data
         * @memberof demo.A
         * @instance
         */
        A.prototype.data = $util.newBuffer([]);

        /**
         * Creates a new A instance using the specified properties.
         * @function create
         * @memberof demo.A
         * @static
         * @param {demo.A.$Properties=} [properties] Properties to set
         * @returns {demo.A} A instance
         * @type {{
         *   (properties: demo.A.$Shape): demo.A & demo.A.$Shape;
         *   (properties?: demo.A.$Properties): demo.A;
         * }}
         */
        A.create = function(properties) {
            return new A(properties);
        };

        /**
         * Encodes the specified A message. Does not implicitly {@link demo.A.verify|verify} messages.
         * @function encode
         * @memberof demo.A
         * @static
         * @param {demo.A.$Properties} message A message or plain object to encode
         * @param {$protobuf.Writer} [writer] Writer to encode to
         * @returns {$protobuf.Writer} Writer
         */
        A.encode = function (message, writer, _depth) {
            if (!writer)
                writer = $Writer.create();
            if (_depth === $undefined)
                _depth = 0;
            if (_depth > $util.recursionLimit)
                throw $Error("max depth exceeded");
            if (message.number != null && $Object.hasOwnProperty.call(message, "number") && message.number !== 0)
                writer.uint32(/* id 1, wireType 0 =*/8).int32(message.number);
            if (message.text != null && $Object.hasOwnProperty.call(message, "text") && message.text !== "")
                writer.uint32(/* id 2, wireType 2 =*/18).string(message.text);
            if (message.data != null && $Object.hasOwnProperty.call(message, "data") && message.data.length)
                writer.uint32(/* id 3, wireType 2 =*/26).bytes(message.data);
            if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                for (let i = 0; i < message.$unknowns.length; ++i)
                    writer.raw(message.$unknowns[i]);
            return writer;
        };

        /**
         * Encodes the specified A message, length delimited. Does not implicitly {@link demo.A.verify|verify} messages.
         * @function encodeDelimited
         * @memberof demo.A
         * @static
         * @param {demo.A.$Properties} message A message or plain object to encode
         * @param {$protobuf.Writer} [writer] Writer to encode to
         * @returns {$protobuf.Writer} Writer
         */
        A.encodeDelimited = function(message, writer) {
            return this.encode(message, (writer || $Writer.create()).fork()).ldelim();
        };

        /**
         * Decodes a A message from the specified reader or buffer.
         * @function decode
         * @memberof demo.A
         * @static
         * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
         * @param {number} [length] Message length if known beforehand
         * @returns {demo.A & demo.A.$Shape} A
         * @throws {Error} If the payload is not a reader or valid buffer
         * @throws {$protobuf.util.ProtocolError} If required fields are missing
         */
        A.decode = function (reader, length, _end, _depth, _target) {
            if (!(reader instanceof $Reader))
                reader = $Reader.create(reader);
            if (_depth === $undefined)
                _depth = 0;
            if (_depth > $Reader.recursionLimit)
                throw $Error("max depth exceeded");
            let end, message, value;
            if (length === $undefined)
                end = reader.len;
            else {
                end = reader.pos + length;
                if (end > reader.len)
                    throw $RangeError("index out of range");
                length = reader.len;
                reader.len = end;
            }
            message = _target || new $root.demo.A();
            while (reader.pos < end) {
                let start = reader.pos;
                let tag = reader.tag();
                if (tag === _end) {
                    _end = $undefined;
                    break;
                }
                let wireType = tag & 7;
                switch (tag >>>= 3) {
                case 1: {
                        if (wireType !== 0)
                            break;
                        if (value = reader.int32())
                            message.number = value;
                        else
                            delete message.number;
                        continue;
                    }
                case 2: {
                        if (wireType !== 2)
                            break;
                        if ((value = reader.stringVerify()).length)
                            message.text = value;
                        else
                            delete message.text;
                        continue;
                    }
                case 3: {
                        if (wireType !== 2)
                            break;
                        if ((value = reader.bytes()).length)
                            message.data = value;
                        else
                            delete message.data;
                        continue;
                    }
                }
                reader.skipType(wireType, _depth, tag);
                if (!reader.discardUnknown) {
                    $util.makeProp(message, "$unknowns", false);
                    (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                }
            }
            if (length !== $undefined) {
                if (reader.pos !== end)
                    throw $RangeError("index out of range");
                reader.len = length;
            }
            if (_end !== $undefined)
                throw $Error("missing end group");
            return message;
        };

        /**
         * Decodes a A message from the specified reader or buffer, length delimited.
         * @function decodeDelimited
         * @memberof demo.A
         * @static
         * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
         * @returns {demo.A & demo.A.$Shape} A
         * @throws {Error} If the payload is not a reader or valid buffer
         * @throws {$protobuf.util.ProtocolError} If required fields are missing
         */
        A.decodeDelimited = function(reader) {
            if (!(reader instanceof $Reader))
                reader = new $Reader(reader);
            return this.decode(reader, reader.size());
        };

        /**
         * Verifies a A message.
         * @function verify
         * @memberof demo.A
         * @static
         * @param {Object.<string,*>} message Plain object to verify
         * @returns {string|null} `null` if valid, otherwise the reason why it is not
         */
        A.verify = function (message, _depth) {
            if (typeof message !== "object" || message === null)
                return "object expected";
            if (_depth === $undefined)
                _depth = 0;
            if (_depth > $util.recursionLimit)
                return "max depth exceeded";
            if (message.number != null && $Object.hasOwnProperty.call(message, "number"))
                if (!$util.isInteger(message.number))
                    return "number: integer expected";
            if (message.text != null && $Object.hasOwnProperty.call(message, "text"))
                if (!$util.isString(message.text))
                    return "text: string expected";
            if (message.data != null && $Object.hasOwnProperty.call(message, "data"))
                if (!(message.data && typeof message.data.length === "number" || $util.isString(message.data)))
                    return "data: buffer expected";
            return null;
        };

        /**
         * Creates a A message from a plain object. Also converts values to their respective internal types.
         * @function fromObject
         * @memberof demo.A
         * @static
         * @param {Object.<string,*>} object Plain object
         * @returns {demo.A} A
         */
        A.fromObject = function (object, _depth) {
            if (object instanceof $root.demo.A)
                return object;
            if (!$util.isObject(object))
                throw $TypeError(".demo.A: object expected");
            if (_depth === $undefined)
                _depth = 0;
            if (_depth > $util.recursionLimit)
                throw $Error("max depth exceeded");
            let message = new $root.demo.A();
            if (object.number != null)
                if ($Number(object.number) !== 0)
                    message.number = object.number | 0;
            if (object.text != null)
                if (typeof object.text !== "string" || object.text.length)
                    message.text = $String(object.text);
            if (object.data != null)
                if (object.data.length)
                    if (typeof object.data === "string")
                        $util.base64.decode(object.data, message.data = $util.newBuffer($util.base64.length(object.data)), 0);
                    else if (object.data.length >= 0)
                        message.data = object.data;
            return message;
        };

        /**
         * Creates a plain object from a A message. Also converts values to other types if specified.
         * @function toObject
         * @memberof demo.A
         * @static
         * @param {demo.A} message A
         * @param {$protobuf.IConversionOptions} [options] Conversion options
         * @returns {Object.<string,*>} Plain object
         */
        A.toObject = function (message, options, _depth) {
            if (!options)
                options = {};
            if (_depth === $undefined)
                _depth = 0;
            if (_depth > $util.recursionLimit)
                throw $Error("max depth exceeded");
            let object = {};
            if (options.defaults) {
                object.number = 0;
                object.text = "";
                if (options.bytes === $String)
                    object.data = "";
                else {
                    object.data = [];
                    if (options.bytes !== $Array)
                        object.data = $util.newBuffer(object.data);
                }
            }
            if (message.number != null && $Object.hasOwnProperty.call(message, "number"))
                object.number = message.number;
            if (message.text != null && $Object.hasOwnProperty.call(message, "text"))
                object.text = message.text;
            if (message.data != null && $Object.hasOwnProperty.call(message, "data"))
                object.data = options.bytes === $String ? $util.base64.encode(message.data, 0, message.data.length) : options.bytes === $Array ? $Array.prototype.slice.call(message.data) : message.data;
            return object;
        };

        /**
         * Converts this A to JSON.
         * @function toJSON
         * @memberof demo.A
         * @instance
         * @returns {Object.<string,*>} JSON object
         */
        A.prototype.toJSON = function() {
            return A.toObject(this, $protobuf.util.toJSONOptions);
        };

        /**
         * Gets the type url for A
         * @function getTypeUrl
         * @memberof demo.A
         * @static
         * @param {string} [prefix] Custom type url prefix, defaults to `"type.googleapis.com"`
         * @returns {string} The type url
         */
        A.getTypeUrl = function(prefix) {
            if (prefix === $undefined)
                prefix = "type.googleapis.com";
            return prefix + "/demo.A";
        };

        return A;
    })();

    demo.Indexer = (function() {

        /**
         * Constructs a new Indexer service.
         * @memberof demo
         * @classdesc Represents an Indexer
         * @extends $protobuf.rpc.Service
         * @constructor
         * @param {$protobuf.RPCImpl} rpcImpl RPC implementation
         * @param {boolean} [requestDelimited=false] Whether requests are length-delimited
         * @param {boolean} [responseDelimited=false] Whether responses are length-delimited
         */
        const Indexer = function(rpcImpl, requestDelimited, responseDelimited) {
            $protobuf.rpc.Service.call(this, rpcImpl, requestDelimited, responseDelimited);
        };

        $Object.defineProperty(Indexer.prototype = $Object.create($protobuf.rpc.Service.prototype), "constructor", { value: Indexer, writable: true, enumerable: false, configurable: true });

        /**
         * Creates new Indexer service using the specified rpc implementation.
         * @function create
         * @memberof demo.Indexer
         * @static
         * @param {$protobuf.RPCImpl} rpcImpl RPC implementation
         * @param {boolean} [requestDelimited=false] Whether requests are length-delimited
         * @param {boolean} [responseDelimited=false] Whether responses are length-delimited
         * @returns {Indexer} RPC service. Useful where requests and/or responses are streamed.
         */
        Indexer.create = function(rpcImpl, requestDelimited, responseDelimited) {
            return new this(rpcImpl, requestDelimited, responseDelimited);
        };

        /**
         * Callback as used by {@link demo.Indexer#addOne}.
         * @memberof demo.Indexer
         * @typedef AddOneCallback
         * @type {function}
         * @param {Error|null} error Error, if any
         * @param {demo.A} [response] A
         */

        /**
         * Calls AddOne.
         * @memberof demo.Indexer
         * @typedef AddOne
         * @type {{
         *   (request: demo.IQ, callback: demo.Indexer.AddOneCallback): void;
         *   (request: demo.IQ): Promise<demo.A>;
         *   readonly name: "AddOne";
         *   readonly path: "/demo.Indexer/AddOne";
         *   readonly requestType: "Q";
         *   readonly responseType: "A";
         *   readonly requestStream: undefined;
         *   readonly responseStream: undefined;
         * }}
         */

        /**
         * Calls AddOne.
         * @name demo.Indexer#addOne
         * @type {demo.Indexer.AddOne}
         */
        $Object.defineProperties(Indexer.prototype.addOne = function(request, callback) {
            return $protobuf.rpc.Service.prototype.rpcCall.call(this, Indexer.prototype.addOne, $root.demo.Q, $root.demo.A, request, callback);
        }, {
            name: { value: "AddOne" },
            path: { value: "/demo.Indexer/AddOne" },
            requestType: { value: "Q" },
            responseType: { value: "A" },
            requestStream: { value: $undefined },
            responseStream: { value: $undefined }
        });

        /**
         * Callback as used by {@link demo.Indexer#list_all}.
         * @memberof demo.Indexer
         * @typedef list_allCallback
         * @type {function}
         * @param {Error|null} error Error, if any
         * @param {demo.A} [response] A
         */

        /**
         * Calls list_all.
         * @memberof demo.Indexer
         * @typedef list_all
         * @type {{
         *   (request: demo.IQ, callback: demo.Indexer.list_allCallback): void;
         *   (request: demo.IQ): Promise<demo.A>;
         *   readonly name: "list_all";
         *   readonly path: "/demo.Indexer/list_all";
         *   readonly requestType: "Q";
         *   readonly responseType: "A";
         *   readonly requestStream: undefined;
         *   readonly responseStream: true;
         * }}
         */

        /**
         * Calls list_all.
         * @name demo.Indexer#list_all
         * @type {demo.Indexer.list_all}
         */
        $Object.defineProperties(Indexer.prototype.list_all = function(request, callback) {
            return $protobuf.rpc.Service.prototype.rpcCall.call(this, Indexer.prototype.list_all, $root.demo.Q, $root.demo.A, request, callback);
        }, {
            name: { value: "list_all" },
            path: { value: "/demo.Indexer/list_all" },
            requestType: { value: "Q" },
            responseType: { value: "A" },
            requestStream: { value: $undefined },
            responseStream: { value: true }
        });

        /**
         * Callback as used by {@link demo.Indexer#upload}.
         * @memberof demo.Indexer
         * @typedef UploadCallback
         * @type {function}
         * @param {Error|null} error Error, if any
         * @param {demo.A} [response] A
         */

        /**
         * Calls Upload.
         * @memberof demo.Indexer
         * @typedef Upload
         * @type {{
         *   (request: demo.IQ, callback: demo.Indexer.UploadCallback): void;
         *   (request: demo.IQ): Promise<demo.A>;
         *   readonly name: "Upload";
         *   readonly path: "/demo.Indexer/Upload";
         *   readonly requestType: "Q";
         *   readonly responseType: "A";
         *   readonly requestStream: true;
         *   readonly responseStream: undefined;
         * }}
         */

        /**
         * Calls Upload.
         * @name demo.Indexer#upload
         * @type {demo.Indexer.Upload}
         */
        $Object.defineProperties(Indexer.prototype.upload = function(request, callback) {
            return $protobuf.rpc.Service.prototype.rpcCall.call(this, Indexer.prototype.upload, $root.demo.Q, $root.demo.A, request, callback);
        }, {
            name: { value: "Upload" },
            path: { value: "/demo.Indexer/Upload" },
            requestType: { value: "Q" },
            responseType: { value: "A" },
            requestStream: { value: true },
            responseStream: { value: $undefined }
        });

        /**
         * Callback as used by {@link demo.Indexer#chat}.
         * @memberof demo.Indexer
         * @typedef ChatCallback
         * @type {function}
         * @param {Error|null} error Error, if any
         * @param {demo.A} [response] A
         */

        /**
         * Calls Chat.
         * @memberof demo.Indexer
         * @typedef Chat
         * @type {{
         *   (request: demo.IQ, callback: demo.Indexer.ChatCallback): void;
         *   (request: demo.IQ): Promise<demo.A>;
         *   readonly name: "Chat";
         *   readonly path: "/demo.Indexer/Chat";
         *   readonly requestType: "Q";
         *   readonly responseType: "A";
         *   readonly requestStream: true;
         *   readonly responseStream: true;
         * }}
         */

        /**
         * Calls Chat.
         * @name demo.Indexer#chat
         * @type {demo.Indexer.Chat}
         */
        $Object.defineProperties(Indexer.prototype.chat = function(request, callback) {
            return $protobuf.rpc.Service.prototype.rpcCall.call(this, Indexer.prototype.chat, $root.demo.Q, $root.demo.A, request, callback);
        }, {
            name: { value: "Chat" },
            path: { value: "/demo.Indexer/Chat" },
            requestType: { value: "Q" },
            responseType: { value: "A" },
            requestStream: { value: true },
            responseStream: { value: true }
        });

        return Indexer;
    })();

    return demo;
})();

export {
  $root as default
};
