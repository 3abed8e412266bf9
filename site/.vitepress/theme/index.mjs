// The theme of VitePress, with what the pages of this project need beside it.
import { useRoute } from 'vitepress';
import DefaultTheme from 'vitepress/theme';
import { nextTick, onMounted, watch } from 'vue';
import './style.css';

/**
 * Groups of the sidebar are buttons that hold a button. Readers of the screen see the inner one
 * alone.
 */
function mendSidebar() {
  for (const caret of document.querySelectorAll('.VPSidebarItem .item[role="button"]')) {
    caret.removeAttribute('role');
    caret.removeAttribute('tabindex');
  }
}

export default {
  extends: DefaultTheme,
  setup() {
    const route = useRoute();
    onMounted(mendSidebar);
    watch(
      () => route.path,
      () => nextTick(mendSidebar),
    );
  },
};
