"""Values of KubeAdmiral's API (``core.kubeadmiral.io/v1alpha1``)."""
