import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

export default defineConfig({
  base: "./",
  plugins: [svelte({ compilerOptions: { runes: true } })],
  worker: {
    format: "es",
    rollupOptions: { output: { entryFileNames: "assets/[name]-[hash].js" } },
  },
  build: {
    target: "es2022",
    // `light-dark()` stays as it is written: every browser of these versions has it.
    cssTarget: ["chrome123", "firefox121", "safari17.5"],
    // The polyfill would be an inline script, which the page's policy refuses.
    modulePreload: false,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    reportCompressedSize: true,
    rollupOptions: {
      output: {
        // The hash of what is in them: the server lets browsers keep them for good.
        entryFileNames: "assets/studio-[hash].js",
        chunkFileNames: "assets/[name]-[hash].js",
        assetFileNames: "assets/studio-[hash][extname]",
      },
    },
  },
  test: {
    projects: [
      {
        extends: true,
        test: { name: "unit", include: ["test/**/*.test.ts"], environment: "node" },
      },
      {
        extends: true,
        test: {
          name: "e2e",
          include: ["e2e/**/*.test.ts"],
          exclude: ["e2e/large.test.ts"],
          environment: "node",
          // Each file has a home, a server and a browser of its own.
          maxWorkers: 2,
          testTimeout: 120_000,
          hookTimeout: 180_000,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: "large",
          include: ["e2e/large.test.ts"],
          environment: "node",
          testTimeout: 120_000,
          hookTimeout: 180_000,
          // What is measured there is measured alone.
          sequence: { groupOrder: 2 },
        },
      },
      {
        extends: true,
        test: {
          name: "screenshots",
          include: ["e2e/screenshots.ts"],
          environment: "node",
          testTimeout: 300_000,
          hookTimeout: 300_000,
        },
      },
    ],
  },
});
