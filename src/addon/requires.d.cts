export declare const prebuilt: { readonly [platform: string]: (() => unknown) | undefined };
export declare function fromFile(file: string): unknown;
export declare function fileOf(addon: unknown): string | undefined;
export declare function checkoutFile(): string;
