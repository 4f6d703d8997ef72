// Command check reads Kubernetes manifests from standard input and fails for one that the
// types of the Kubernetes API do not take: an unknown field, a wrong type, a kind of another
// version. Kinds of others, which have no types here, are counted.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

var kinds = map[string]func() any{
	"v1 ConfigMap":                       func() any { return &corev1.ConfigMap{} },
	"v1 Service":                         func() any { return &corev1.Service{} },
	"v1 Secret":                          func() any { return &corev1.Secret{} },
	"apps/v1 StatefulSet":                func() any { return &appsv1.StatefulSet{} },
	"policy/v1 PodDisruptionBudget":      func() any { return &policyv1.PodDisruptionBudget{} },
	"networking.k8s.io/v1 Ingress":       func() any { return &networkingv1.Ingress{} },
	"networking.k8s.io/v1 NetworkPolicy": func() any { return &networkingv1.NetworkPolicy{} },
}

func main() {
	all, err := io.ReadAll(os.Stdin)
	if err != nil {
		fail(err)
	}
	known, others, wrong := 0, 0, 0
	for _, document := range bytes.Split(append([]byte("\n"), all...), []byte("\n---")) {
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		var head struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(document, &head); err != nil {
			fail(err)
		}
		if head.Kind == "" { // comments only
			continue
		}
		make := kinds[head.APIVersion+" "+head.Kind]
		if make == nil {
			others++
			continue
		}
		known++
		if err := yaml.UnmarshalStrict(document, make()); err != nil {
			wrong++
			fmt.Printf("%s %s: %v\n", head.APIVersion, head.Kind, err)
		}
	}
	fmt.Printf("%d manifests fit the types of Kubernetes, %d do not, %d have none\n", known-wrong, wrong, others)
	if wrong > 0 || known == 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "check:", err)
	os.Exit(1)
}
