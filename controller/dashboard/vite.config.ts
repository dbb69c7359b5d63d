// SPDX-License-Identifier: Apache-2.0
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// The page is built into the Python package, which serves it. Assets are not inlined, because the
// page's content security policy allows neither data: URLs nor inline code.
export default defineConfig({
  base: "./",
  plugins: [svelte()],
  build: {
    outDir: "../cachepilot/dashboard",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    target: "es2022",
    modulePreload: { polyfill: false },
  },
});
